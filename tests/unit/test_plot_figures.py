"""What the plots show: axes, units, n, and the data in their artists."""

import warnings

import numpy as np
import pytest
from results import measured, write_run, write_sweep

from emulator.report.compare.differences import compare_sides
from emulator.report.compare.metrics import metric_of, metrics_of
from emulator.report.compare.samples import read_side
from emulator.report.histogram import histogram_of
from emulator.report.plot import ab, cdf, heatmap, lines, published, series, violins
from emulator.report.plot.data import Nothing, cumulative, grids, middle_percentile, read_data
from emulator.report.plot.draw import encoded
from emulator.report.plot.style import look, styled
from emulator.report.reference import Key, read_cells_csv
from emulator.report.runs import read_run

KEYS = [Key("v7", n, tx) for n in (0, 1000) for tx in (0.0, 50.0, 100.0)] + [Key("stock", n, None) for n in (0, 1000)]


@pytest.fixture(autouse=True)
def in_style():
    with styled(), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def values(key, rep=0):
    scale = 1 if key.nrules == 0 else 0.05
    return {"pps": 1e6 * scale * (1 + 0.01 * rep), "rtt_avg_ms": (0.1 + (key.tx_usecs or 200) / 1000) / scale, "n": 50}


def hists(key, rep):
    base = (key.tx_usecs or 200) + 16
    found = {"rtt_ns": histogram_of((1000 * (base + np.arange(50) + rep)).astype(np.int64))}
    if key.variant != "stock":
        found |= {
            "limit": histogram_of(np.full(30, int(base))),
            "count": histogram_of(1 + np.arange(30) % 3),
            "interval_ns": histogram_of(1000 + np.arange(30)),
        }
    return found


@pytest.fixture
def sweep(tmp_path):
    cells = {key: [values(key, rep) for rep in range(3)] for key in KEYS}
    return write_sweep(tmp_path / "sweep", cells, hists=hists)


@pytest.fixture
def run(tmp_path):
    rtts = (2e6 + 1e4 * np.arange(100)).astype(int).tolist()
    return write_run(tmp_path / "run", measured("stock", [10 * r for r in rtts], bql="off"), measured("v7", rtts))


def texts(fig):
    return [t.get_text() for ax in fig.axes for t in [ax.title, *ax.texts, *ax.get_xticklabels()]] + [
        t.get_text() for legend in [*fig.legends, *(ax.get_legend() for ax in fig.axes)] if legend for t in legend.texts
    ]


def drawn(figures):
    """Every axes has labels with units, and every figure can be written without a warning."""
    for fig in figures.values():
        assert all(ax.get_ylabel() for ax in fig.axes)
        assert any(ax.get_xlabel() for ax in fig.axes)
        assert any("n =" in text or "n=" in text for text in texts(fig))
        assert b"<svg" in encoded(fig, "svg")
    return figures


def line(ax, label):
    return next(artist for artist in ax.lines if artist.get_label() == label)


def test_lines_show_every_cell_and_stock_beside_them(sweep):
    figures = drawn(lines.figures(read_data(sweep, {}), metrics_of(["pps", "rtt_avg_ms"])))
    assert list(figures) == ["lines-pps", "lines-rtt_avg_ms"]
    (ax,) = figures["lines-pps"].axes
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("throughput, kpps", "tx-usecs, us (evenly spaced)  |  stock")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "50", "100", "stock"]
    assert line(ax, "0").get_ydata() == pytest.approx([1010.0] * 3)
    assert line(ax, "1000").get_ydata() == pytest.approx([50.5] * 3)
    stock = [artist for artist in ax.lines if list(artist.get_xdata()) == [lines.positions(grid_of(sweep))[-1]]]
    assert sorted(float(artist.get_ydata()[0]) for artist in stock) == pytest.approx([50.5, 1010.0])
    spreads = [segment[:, 1].tolist() for c in ax.collections for segment in c.get_segments()]
    assert pytest.approx([1000.0, 1020.0]) in spreads
    assert "sweep, virtual clock, n = 3 repetitions a cell, 150 pings a cell" in texts(figures["lines-pps"])


def grid_of(path, column="pps"):
    return grids(read_data(path, {}), metric_of(column))[0]


def test_far_apart_values_get_a_logarithmic_axis_and_near_ones_begin_at_0(sweep):
    figures = lines.figures(read_data(sweep, {}), metrics_of(["pps", "rtt_avg_ms"]))
    assert figures["lines-pps"].axes[0].get_ylim()[0] == 0
    assert figures["lines-rtt_avg_ms"].axes[0].get_yscale() == "log"


def test_each_bql_variant_has_its_own_figure(tmp_path):
    cells = {Key(v, 0, tx): [values(Key(v, 0, tx))] for v in ("v6", "v7") for tx in (0.0, 50.0)}
    cells |= {Key("v5", 0, None): [{"pps": 5e5}], Key("stock", 0, None): [{"pps": 9e5}]}
    data = read_data(write_sweep(tmp_path / "s", cells), {})
    assert list(drawn(lines.figures(data, metrics_of(["pps"])))) == ["lines-v6-pps", "lines-v7-pps"]
    assert grids(data, metric_of("pps"))[1].column_labels == ["0", "50", "v5", "stock"]
    only_stock = read_data(write_sweep(tmp_path / "t", {Key("stock", 0, None): [{"pps": 9e5}]}), {})
    assert list(drawn(lines.figures(only_stock, metrics_of(["pps"])))) == ["lines-pps"]
    assert list(drawn(heatmap.figures(only_stock, metrics_of(["pps"])))) == ["heatmap-pps"]


def test_a_heatmap_has_a_number_in_each_cell_and_a_dash_where_there_is_none(tmp_path, sweep):
    figures = drawn(heatmap.figures(read_data(sweep, {}), metrics_of(["pps"])))
    ax, bar = figures["heatmap-pps"].axes
    numbers = [t.get_text() for t in ax.texts[:8]]
    assert numbers == ["1010"] * 4 + ["50.5"] * 4
    assert (ax.get_ylabel(), bar.get_ylabel()) == ("rules", "throughput, kpps, log scale")
    failed = [(KEYS[0], rep) for rep in range(3)]
    cells = {key: [values(key, rep) for rep in range(3)] for key in KEYS}
    data = read_data(write_sweep(tmp_path / "f", cells, failed=failed), {})
    ax = heatmap.figures(data, metrics_of(["pps"]))["heatmap-pps"].axes[0]
    assert [t.get_text() for t in ax.texts[:4]] == ["-", "1010", "1010", "1010"]


def test_numbers_stand_out_from_their_cells(sweep):
    ax = heatmap.figures(read_data(sweep, {}), metrics_of(["pps"]))["heatmap-pps"].axes[0]
    image = ax.images[0]
    for text in ax.texts[:8]:
        column, row = (round(v) for v in text.get_position())
        paper = np.mean(image.cmap(image.norm(image.get_array()[row, column]))[:3])
        ink = 1.0 if text.get_color() == "white" else 0.0
        assert abs(paper - ink) > 0.45


def test_the_cdf_of_a_run_is_that_of_its_pings(run):
    (ax,) = drawn(cdf.figures([read_data(run, {})]))["cdf"].axes
    curve = line(ax, "v7: p50 2.49 ms, n=100")
    rtts, shares = curve.get_xdata(), curve.get_ydata()
    assert (rtts[0], rtts[-1], shares[0], shares[-1]) == (2.0, 2.99, 0.0, 1.0)
    assert shares[np.searchsorted(rtts, 2.5, side="right") - 1] == pytest.approx(0.51)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("RTT, ms", "share of pings that took no longer")


def test_the_cdf_of_a_sweep_takes_the_cells_of_the_largest_rules_count(tmp_path):
    keys = [Key("v7", n, tx) for n in (0, 10, 1000) for tx in (0.0, 50.0, 100.0, 500.0)]
    data = read_data(write_sweep(tmp_path / "s", {k: [values(k)] for k in keys}, hists=hists), {})
    fig = drawn(cdf.figures([data]))["cdf"]
    assert [t.get_text().partition(":")[0] for t in fig.legends[0].texts] == ["0us", "50us", "100us", "500us"]
    assert fig.axes[0].get_title("left") == "RTT, v7, nrules=1000"
    assert any(text.endswith("50 pings a cell, 4 of 12 cells") for text in texts(fig))
    chosen = read_data(tmp_path / "s", {"nrules": ("10", "0"), "tx_usecs": ("50",)})
    fig = cdf.figures([chosen])["cdf"]
    assert [t.get_text().partition(":")[0] for t in fig.legends[0].texts] == ["nrules=0 50us", "nrules=10 50us"]


def test_the_cdf_of_two_results_gives_the_same_cell_the_same_marker(run):
    (ax,) = drawn(cdf.figures([read_data(run, {}), read_data(run, {})]))["cdf"].axes
    a, b = line(ax, "A v7: p50 2.49 ms, n=100"), line(ax, "B v7: p50 2.49 ms, n=100")
    assert a.get_marker() == b.get_marker()
    assert (a.get_markerfacecolor(), b.get_markerfacecolor()) == (a.get_color(), "white")
    assert a.get_linestyle() != b.get_linestyle()


def test_without_a_reply_there_is_no_cdf(tmp_path):
    data = read_data(write_run(tmp_path / "r", measured("v7", [])), {})
    with pytest.raises(Nothing, match="no ping was answered"):
        cdf.figures([data])


def test_series_mark_the_stops(run):
    figures = drawn(series.figures(read_data(run, {})))
    assert list(figures) == ["series-stock", "series-v7"]
    *panels, stops = figures["series-v7"].axes
    assert [ax.get_ylabel() for ax in panels] == [
        "DQL limit,\npackets", "in flight,\npackets", "ring,\nentries", "qdisc backlog,\npackets"
    ]  # fmt: skip
    measured_series = read_run(run).variants[1].series
    assert panels[0].lines[0].get_ydata().tolist() == measured_series["limit"].tolist()
    drv, stack = stops.collections
    assert (len(drv.get_segments()), len(stack.get_segments())) == (
        0,
        int(np.diff(measured_series["stack_xoff"]).sum()),
    )
    dots = [artist for artist in stops.lines if artist.get_marker() == "."]
    assert [len(artist.get_xdata()) for artist in dots] == [0, int((measured_series["state"] == 2).sum())]
    assert any(text.startswith("42 stops, at most 1 between samples") for text in texts(figures["series-v7"]))
    assert [ax.get_ylabel() for ax in figures["series-stock"].axes][:2] == ["ring,\nentries", "qdisc backlog,\npackets"]


def test_series_of_an_earlier_version_say_that_stops_were_not_recorded(run):
    path = run / "variants" / "v7" / "series.csv"
    rows = [row.split(",")[:6] for row in path.read_text().splitlines()]
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    assert texts(series.figures(read_data(run, {}))["series-v7"]).count("not recorded") == 2


def test_violins_are_the_histograms(run, sweep):
    fig = drawn(violins.figures(read_data(run, {})))["violins"]
    assert [ax.get_ylabel() for ax in fig.axes] == [
        "DQL limit, packets", "between completions, us", "packets a completion"
    ]  # fmt: skip
    assert [t.get_text() for t in fig.axes[-1].get_xticklabels()] == ["v7\nn=300"]
    assert fig.axes[2].lines[0].get_ydata()[0] == 5  # the median of 1..9
    fig = drawn(violins.figures(read_data(sweep, {})))["violins"]
    assert len(fig.axes[-1].get_xticklabels()) == 6


def test_the_outline_of_a_violin_has_a_bin_for_each_whole_number():
    edges, density = violins.outline(histogram_of(np.array([3, 3, 3, 5])), log=False)
    assert edges.tolist() == [2.5, 3.5, 4.5, 5.5]
    assert density == pytest.approx([0.75, 0.0, 0.25])


def test_few_whole_numbers_have_bins_of_their_own_on_a_logarithmic_axis_too():
    edges, shares = violins.outline(histogram_of(np.array([2] * 6 + [3] * 2 + [4000] * 2)), log=True)
    assert edges[:3].tolist() == [1.5, 2.5, 3.5]
    assert shares[:2] == pytest.approx([0.6, 0.2])
    assert shares.sum() == pytest.approx(1)
    assert np.diff(np.log(edges[edges > 11])).max() < 0.1


@pytest.mark.parametrize("log", [False, True])
def test_an_outline_holds_all_that_was_counted(log):
    values = np.random.default_rng(1).gamma(3, 40_000, 5000).astype(np.int64)
    edges, density = violins.outline(histogram_of(values), log=log)
    assert density.sum() == pytest.approx(1)
    exact = np.histogram(values, edges)[0] / len(values)
    assert np.abs(np.cumsum(exact) - np.cumsum(density)).max() < 0.02


def test_cumulative_shares_of_a_histogram():
    edges, shares = cumulative(histogram_of(np.array([1, 1, 2, 10])))
    assert edges.tolist() == [0.5, 1.5, 1.5, 2.5, 9.5, 10.5]
    assert shares.tolist() == [0.0, 0.5, 0.5, 0.75, 0.75, 1.0]


def test_violins_without_bql(tmp_path):
    data = read_data(write_run(tmp_path / "r", measured("stock", [1000], bql="off")), {})
    with pytest.raises(Nothing, match="no completion was counted"):
        violins.figures(data)


def test_ab_marks_what_may_be_claimed(tmp_path):
    reps = [1000.0 + i for i in range(8)]

    def one(name, shift, *more):
        cells = {KEYS[0]: reps, KEYS[1]: [v + shift for v in reps], KEYS[2]: reps[:2]}
        return write_sweep(tmp_path / name, {k: [{"pps": v} for v in vs] for k, vs in cells.items()}, clock="real")

    metrics = metrics_of(["pps"])
    found = compare_sides(*(read_side(p, metrics, {}) for p in (one("a", 0), one("b", 100))), metrics)
    fig = drawn(ab.figures(found))["ab-pps"]
    (ax,) = fig.axes
    assert ax.get_xlabel() == "B - A, % of A, with its 95 % interval"
    assert [t.get_text() for t in ax.get_yticklabels()] == [str(key) for key in KEYS[:3]]
    marks = {artist.get_ydata()[0]: artist for artist in ax.lines if artist.get_marker() in ("o", "x", "D")}
    assert [marks[y].get_marker() for y in range(3)] == ["o", "o", "x"]
    assert [marks[y].get_markerfacecolor() for y in range(2)] == ["white", "#000000"]
    assert marks[1].get_xdata()[0] == pytest.approx(100 * 100 / 1003.5)
    assert [t.get_text() for t in fig.legends[0].texts] == [
        "no difference", "a difference", "not tested: too few repetitions, or one seed"
    ]  # fmt: skip


def test_published_figures_lie_over_the_result(tmp_path, sweep):
    path = tmp_path / "reference.csv"
    path.write_text("variant,nrules,tx_usecs,pps\nv7,0,50,1000000\nstock,1000,,101000\nv7,77,50,1\nv6,0,50,1\n")
    figures = drawn(published.figures(read_data(sweep, {}), read_cells_csv(path), metrics_of(["pps"])))
    upper, lower = figures["reference-pps"].axes
    hollow = [a for a in upper.lines if a.get_markerfacecolor() == "none" and len(a.get_xdata())]
    assert [(list(a.get_xdata()), list(a.get_ydata())) for a in hollow] == [([1.0], [1000.0]), ([3.35], [101.0])]
    errors = [float(v) for a in lower.lines for v in a.get_ydata() if a.get_marker() != "None"]
    assert errors == pytest.approx([1.0, -50.0])
    assert lower.get_ylabel() == "error, %"
    path.write_text("variant,nrules,tx_usecs,pps\nv6,0,50,1\n")
    with pytest.raises(Nothing, match="has no figure for any cell of the result"):
        published.figures(read_data(sweep, {}), read_cells_csv(path), metrics_of(["pps"]))


def test_many_things_differ_in_more_than_colour():
    assert len({(str(look(i).line), look(i).marker) for i in range(24)}) == 24


def test_svg_is_the_same_twice(sweep):
    data = read_data(sweep, {})
    one, other = (encoded(lines.figures(data, metrics_of(["pps"]))["lines-pps"], "svg") for _ in range(2))
    assert one == other
    assert b"dc:date" not in one


def test_a_name_that_the_font_lacks_costs_no_plot(tmp_path):
    from emulator.report.plot.draw import Wanted, plot

    run = write_run(tmp_path / "r", measured("v7 \u6771", [1000, 2000] * 10))
    made = list(plot(Wanted([run], ["cdf"], [], {}, None), tmp_path / "out", ["svg"]))
    assert [path.name for path in made] == ["cdf.svg"]


SCENARIO = {"name": "mine", "duration": "10s", "host": {"name": "box"}}


def test_below_a_title_stands_what_is_shown(tmp_path):
    cells = {key: [values(key, rep) for rep in range(3)] for key in KEYS}
    path = write_sweep(
        tmp_path / "s",
        cells,
        hists=hists,
        clock="real",
        scenario=SCENARIO,
        timing="poor",
        others={"device.num_tx_queues": 6},
    )
    data = read_data(path, {"device.num_tx_queues": ("6",)})
    made = "s, mine, real clock, host box, 10s, n = 3 repetitions a cell"
    for fig in (
        lines.figures(data, metrics_of(["pps"]))["lines-pps"],
        heatmap.figures(data, metrics_of(["pps"]))["heatmap-pps"],
        cdf.figures([data])["cdf"],
    ):
        said = [text.replace("\n", " ") for text in texts(fig)]
        assert f"{made}, timing poor in 24 of 24, 150 pings a cell" in said
        assert "device.num_tx_queues=6" in fig.axes[0].get_title("left")
    fig = violins.figures(data)["violins"]
    assert f"{made}, timing poor in 24 of 24" in texts(fig)
    assert fig.axes[0].get_title("left") == "every completion, v7, device.num_tx_queues=6"


def test_a_run_says_what_it_was_and_one_variant_is_in_the_title(tmp_path):
    data = read_data(write_run(tmp_path / "r", measured("mine", [1000, 2000]), scenario=SCENARIO), {})
    fig = violins.figures(data)["violins"]
    assert fig.axes[0].get_title("left") == "every completion, mine"
    assert "r, mine, real clock, host box, 10s, one run a variant" in texts(fig)


def test_the_cdf_of_two_sweeps_says_of_each_what_it_is_and_takes_the_same_rules(tmp_path):
    def one(name, rules, **changed):
        keys = [Key("v7", n, tx) for n in rules for tx in (0.0, 50.0, 100.0, 500.0)]
        scenario = {**SCENARIO, **changed}
        return read_data(
            write_sweep(tmp_path / name, {k: [values(k)] for k in keys}, hists=hists, scenario=scenario), {}
        )

    a, b = one("a", (0, 10, 1000)), one("b", (0, 10), duration="5s")
    fig = drawn(cdf.figures([a, b]))["cdf"]
    assert fig.axes[0].get_title("left") == "RTT, v7, nrules=10"
    assert [t.get_text().partition(":")[0] for t in fig.legends[0].texts] == [
        f"{side} {tx}us" for side in "AB" for tx in (0, 50, 100, 500)
    ]
    (source,) = [text for text in texts(fig) if text.startswith("A = ")]
    assert source.splitlines() == [
        "A = a, mine, virtual clock, host box, 10s, n = 1 repetition a cell, 50 pings a cell, 4 of 12 cells",
        "B = b, mine, virtual clock, host box, 5s, n = 1 repetition a cell, 50 pings a cell, 4 of 8 cells",
    ]
    other = one("c", (7,))
    fig = cdf.figures([one("d", (8,)), other])["cdf"]
    assert [t.get_text().partition(":")[0] for t in fig.legends[0].texts][::4] == ["A nrules=8 0us", "B nrules=7 0us"]


def test_the_cdf_of_a_sweep_has_the_medians_of_its_table(tmp_path):
    rtts = histogram_of(np.array([16_750_000] * 5))
    cells = {KEYS[0]: [{"rtt_p50_ms": 16.75}], KEYS[1]: [{}]}
    data = read_data(write_sweep(tmp_path / "s", cells, hists=lambda _k, _r: {"rtt_ns": rtts}), {})
    fig = cdf.figures([data])["cdf"]
    assert [t.get_text() for t in fig.legends[0].texts] == ["0us: p50 16.8 ms, n=5", "50us: p50 16.8 ms, n=5"]


def test_stock_is_a_thick_line(sweep, run):
    def widths(path):
        (ax,) = cdf.figures([read_data(path, {})])["cdf"].axes
        return {artist.get_label().partition(":")[0]: artist.get_linewidth() for artist in ax.lines}

    of_sweep = widths(sweep)
    assert of_sweep["stock nrules=0"] > of_sweep["nrules=0 0us"]
    of_run = widths(run)
    assert of_run["stock"] > of_run["v7"]


def test_what_has_one_value_is_a_line_and_n_is_that_of_completions(sweep):
    fig = violins.figures(read_data(sweep, {}))["violins"]
    limit, _interval, count = fig.axes
    assert not limit.lines
    assert [float(c.get_segments()[0][0, 1]) for c in limit.collections] == [216, 66, 116] * 2
    assert len(count.lines) == 6
    assert fig.axes[-1].get_xticklabels()[0].get_text() == "nrules=0\n0us\nn=90"


def test_percentiles_in_violins_are_the_middle_of_their_bucket():
    hist = histogram_of(np.array([5, 1000, 1003, 1007, 9000]))
    assert [middle_percentile(hist, q) for q in (1, 50, 100)] == [5.0, 1003.5, 8960.0 + (9000 - 8960) / 2]
    assert middle_percentile(histogram_of(np.array([], dtype=np.int64)), 50) is None


def test_the_line_across_is_in_the_legend(sweep):
    (ax,) = lines.figures(read_data(sweep, {}), metrics_of(["pps"]))["lines-pps"].axes
    assert [t.get_text() for t in ax.get_legend().texts] == ["0", "1000", "stock,\nacross"]


def test_ab_says_what_is_compared_and_in_which_settings_they_differ(tmp_path):
    def side(name, **changed):
        path = write_sweep(tmp_path / name, {KEYS[0]: [{"pps": 1e6}]}, scenario={**SCENARIO, **changed})
        return read_side(path, metrics_of(["pps"]), {})

    fig = ab.figures(compare_sides(side("a"), side("b", warmup="2s", duration="5s"), metrics_of(["pps"])))["ab-pps"]
    (source,) = [text for text in texts(fig) if text.startswith("A = ")]
    assert source.splitlines() == [
        "A = a, mine, virtual clock, host box, 10s x 1 repetition",
        "B = b, mine, virtual clock, host box, 5s x 1 repetition",
        "settings that differ: duration 10s/5s",
        "n = 1 and 1 repetitions",
    ]
