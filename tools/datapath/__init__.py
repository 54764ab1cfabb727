"""Parts of tools/bench_datapath.py."""
