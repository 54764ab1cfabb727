"""Plots of results, PNG and SVG, made to be read in black and white.

::

    data      a sweep or a run, as the plots take it          style   greys, line styles, markers, hatches, fonts
    lines     a metric over tx-usecs, a line a rules count    heatmap the same as a map with its numbers
    cdf       RTT                                             series  limit, in flight, ring, backlog, stops over time
    violins   limit, interval and count of completions        ab      two results: differences with their intervals
    published published figures over a result                 draw    which kinds there are; writes the files

Each kind has a function that draws into given Axes, and one that makes the figures. What cannot be drawn raises Nothing
with the reason. matplotlib (Agg) is imported where something is drawn and nowhere else; the same result gives the same
SVG, byte for byte.
"""
