"""Pictures that live inside a page: the same bytes for the same data, colours of the page, text that stays text."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which colour-blind readers can tell apart; the page maps each to a light and a dark tone.
INK, QUIET, PAPER = "#1a1a1b", "#8a8a8b", "#fefefd"
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"
CYCLE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
_VARIABLES = {
    INK: "ink",
    QUIET: "quiet",
    PAPER: "paper",
    BLUE: "blue",
    ORANGE: "orange",
    GREEN: "green",
    VERMILION: "vermilion",
    PURPLE: "purple",
    SKY: "sky",
}
# Colour is never alone: each series has its marker and its dash too.
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dealwright",
    "font.family": "sans-serif",
    # A dollar sign in a product's name is no formula.
    "text.parse_math": False,
    "font.size": 11,
    "axes.labelsize": 10,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.5,
    "grid.alpha": 0.35,
    "grid.color": QUIET,
    "lines.linewidth": 1.8,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    **dict.fromkeys(["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"], INK),
}
WIDTH, SMALL = 5.0, 4.2

Estimate = Mapping[str, Any]
Series = tuple[str, str, str, Mapping[str, Estimate]]  # label, colour, marker, and the estimates by key


def variable(colour: str) -> str:
    """Return the page's variable for a colour of the palette."""
    return f"var(--{_VARIABLES[colour]})"


@dataclass(frozen=True, slots=True)
class Picture:
    """An inline SVG with its title and what it shows in words."""

    svg: Markup
    title: str
    words: str


class Canvas:
    """An axes to draw on; `picture` holds the result once the block has ended."""

    def __init__(self, axes: "Axes") -> None:
        self.axes = axes
        self.picture: Picture


@contextmanager
def drawing(name: str, title: str, words: str, height: float, width: float = WIDTH) -> Iterator[Canvas]:
    """Open a figure of one axes and turn it into a picture when the block ends.

    `name` must be unique in the page: it stands before every identifier of the SVG.
    """
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot

    with matplotlib.rc_context(_SETTINGS):
        figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
        canvas = Canvas(axes)
        try:
            yield canvas
            sink = io.StringIO()
            figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None})
        finally:
            pyplot.close(figure)
    canvas.picture = Picture(_inline(sink.getvalue(), name, title, words), title, words)


def interval_marks(
    axes: "Axes", places: Sequence[float], estimates: Sequence[Estimate], colour: str, marker: str, label: str
) -> None:
    """Draw estimates as marks at the given heights, their intervals along x; a mark without one is hollow."""
    values, lows, highs = extents(estimates)
    axes.hlines(places, lows, highs, color=colour, linewidth=1.6)
    style: dict[str, Any] = {"linestyle": "none", "marker": marker, "color": colour, "markersize": 6}
    axes.plot(values, places, label=label, **style)
    bare = [place for place, estimate in enumerate(estimates) if estimate["low"] is None]
    axes.plot([values[place] for place in bare], [places[place] for place in bare], **style, markerfacecolor=PAPER)


def interval_rows(axes: "Axes", series: Sequence[Series], rows: Mapping[str, str], apart: float) -> None:
    """Draw a row for each key with every series' mark in it, the marks that far apart, and the legend.

    `rows` are keys with their labels.
    """
    for order, (label, colour, marker, found) in enumerate(series):
        here = [(place, found[key]) for place, key in enumerate(rows) if key in found]
        places = [place + (order - (len(series) - 1) / 2) * apart for place, _ in here]
        if here:
            interval_marks(axes, places, [estimate for _, estimate in here], colour, marker, label)
    axes.set_yticks(range(len(rows)), list(rows.values()))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    for place in range(1, len(rows)):
        axes.axhline(place - 0.5, color=QUIET, linewidth=0.5, alpha=0.5)
    axes.figure.legend(loc="outside upper left", ncols=2)


def extents(estimates: Sequence[Estimate]) -> tuple[list[float], list[float], list[float]]:
    """Return the values of estimates, their lower and their upper bounds; a value without them is its own."""
    values = [estimate["value"] for estimate in estimates]
    lows = [estimate["value"] if estimate["low"] is None else estimate["low"] for estimate in estimates]
    highs = [estimate["value"] if estimate["high"] is None else estimate["high"] for estimate in estimates]
    return values, lows, highs


def whole_steps(axes: "Axes") -> None:
    """Keep fractions off the x axis, which counts steps or turns."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))


def spread(levels: Sequence[float], apart: float) -> list[float]:
    """Return the levels raised where they lie closer together than labels may stand, the lowest where it is."""
    places = list(levels)
    order = sorted(range(len(levels)), key=lambda place: levels[place])
    for below, above in pairwise(order):
        places[above] = max(places[above], places[below] + apart)
    return places


def _inline(svg: str, name: str, title: str, words: str) -> Markup:
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r" font-family: [^;]*;", "", body)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'xlink:href="#', f'href="#{name}-', body)
    body = body.replace("url(#", f"url(#{name}-")
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    # Width and height come from the page; the view box keeps the shape.
    opening = re.search(r'viewBox="[^"]*"', body)
    assert opening is not None
    inner = body[body.index(">") + 1 :]
    label = f'<svg xmlns="http://www.w3.org/2000/svg" {opening[0]} role="img" aria-labelledby="{name}-t {name}-d">'
    about = f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(words)}</desc>'
    return Markup(re.sub(r"\n\s*", "\n", label + about + inner).strip())
