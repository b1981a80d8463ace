"""`dealwright plan`: what a run needs, before it starts."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from dealwright.cli.pipeline import complete_profile

if TYPE_CHECKING:
    from dealwright.plan import Figure, Plan

NOT_RUN = "Estimates for choosing a machine: nothing of this has run on a GPU, neither memory nor hours were measured."


@click.command()
@click.option("--profile", shell_complete=complete_profile, help="Plan this profile.  [default: params.yaml as it is]")
@click.option(
    "--gpus", type=click.IntRange(1), help="How many GPUs.  [default: the fewest of 1, 2, 4, ... that hold it]"
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def plan(profile: str | None, gpus: int | None, as_json: bool) -> None:
    """Print what training needs: parameters, bytes a GPU, tokens a step and hours, each with its formula.

    The model is the one in warmstart.base; some are known before they are fetched. params.yaml is left as it is.

    \b
    dealwright plan
    dealwright plan --profile paper
    dealwright plan --profile paper --gpus 8 --json
    """
    from dealwright.params import load_params
    from dealwright.plan import make_plan
    from dealwright.profiles import profiled_params

    planned = make_plan(load_params() if profile is None else profiled_params(profile), gpus)
    click.echo(json.dumps(_as_json(planned), indent=2) if as_json else "\n".join(_lines(planned)))


def _lines(planned: "Plan") -> list[str]:
    first, *_ = planned.gpus
    return [
        f"model: {planned.base} (shape from {planned.shape_from})",
        *_figures(planned.model),
        "",
        "one step",
        *_figures(planned.step),
        "",
        _row("GB on each GPU", [f"{one.count} x {one.gpu.name}" for one in planned.gpus]),
        *(
            _row(figure.name, [f"{one.held[at].value / 1e9:.1f}" for one in planned.gpus])
            for at, figure in enumerate(first.held)
        ),
        _row("most at once", [f"{one.bytes / 1e9:.1f}" for one in planned.gpus]),
        _row("memory", [f"{one.gpu.memory / 1e9:.0f}{'' if one.fits else ': too small'}" for one in planned.gpus]),
        "",
        _row("hours", []),
        *(
            _row(figure.name, [f"{one.hours[at].value:.2f}" for one in planned.gpus])
            for at, figure in enumerate(first.hours)
        ),
        _row("together", [f"{one.total_hours:.2f}" for one in planned.gpus]),
        "",
        "formulas",
        *(f"  {figure.name:<14} {figure.formula}" for figure in (*first.held, *first.hours)),
        *(f"  {name:<14} {text}" for name, text in _assumptions().items()),
        "",
        NOT_RUN,
    ]


def _figures(figures: Sequence["Figure"]) -> list[str]:
    return [f"  {figure.name:<27} {figure.value:>16,.0f}   {figure.formula}" for figure in figures]


def _row(name: str, cells: Sequence[str]) -> str:
    return f"  {name:<16}" + "".join(f"{cell:>17}" for cell in cells)


def _assumptions() -> dict[str, str]:
    from dealwright import plan

    flops = ", ".join(f"{gpu.name} {gpu.flops / 1e12:g}" for gpu in plan.GPUS)
    bandwidth = ", ".join(f"{gpu.name} {gpu.bandwidth / 1e12:g}" for gpu in plan.GPUS)
    return {
        "arithmetic": f"GPUs x {plan.LEARNING_SHARE:.0%} of the peak in bfloat16: {flops} TFLOP/s",
        "bandwidth": f"{plan.READING_SHARE:.0%} of the peak: {bandwidth} TB/s",
        "assumed": f"{plan.TOKEN_CHARACTERS} characters a token; messages that fill {plan.MESSAGE_SHARE:.0%} of their "
        f"limit; {plan.RESERVE:.0%} of the memory left free",
        "most at once": "all but the lesser of (playing copy + cache) and activations, which take turns",
        "left out": "loading, the warm start and all other stages",
    }


def _as_json(planned: "Plan") -> dict[str, Any]:
    kinds = [
        asdict(one) | {"bytes": one.bytes, "fits": one.fits, "total_hours": one.total_hours} for one in planned.gpus
    ]
    return asdict(planned) | {"gpus": kinds, "note": NOT_RUN}
