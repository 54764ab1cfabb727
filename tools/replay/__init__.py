"""Replaying recorded traces on the emulated kernel; see tools/conformance.py."""
