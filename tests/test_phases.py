import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import stages.phases
from dealwright.files import write_parquet
from dealwright.params import load_params
from dealwright.phases.analysis import PhasesError, analyse_phases
from dealwright.phases.changes import find_changes, shortest_segment
from dealwright.phases.clusters import cluster_episodes
from dealwright.phases.features import FEATURES, episode_features
from dealwright.phases.labels import Phase, label_segments, not_observed
from tests.synthetic import AGGRESSIVE, DEADLOCK, NAIVE, PERSUASION, Behaviour, probe_games

Floats = NDArray[np.float64]

PARAMS = load_params().phases
CHECKPOINTS, GAMES = 50, 64
# Levels of made-up phases: first offer, deals, bargained ratio, out of turns, seller left, arguments, three kinds.
LEVELS = np.array(
    [
        [0.84, 0.90, 0.35, 0.05, 0.03, 0.15, 0.70, 0.20, 0.10],
        [0.62, 0.86, 0.50, 0.08, 0.04, 0.20, 0.30, 0.50, 0.20],
        [0.55, 0.60, 0.62, 0.25, 0.12, 0.30, 0.15, 0.45, 0.40],
        [0.58, 0.92, 0.70, 0.04, 0.02, 0.75, 0.10, 0.20, 0.70],
    ]
)
NAMES = ("first_offer_ratio", "deal_rate", "bargained_ratio", "max_turns_rate", "seller_quit_rate", "argument_rate")
# How far a policy wanders, per series, in the tests with autocorrelated noise.
WANDER = np.array([0.012, 0.035, 0.03, 0.03, 0.02, 0.03, 0.05, 0.05, 0.05])


def _sampled(means: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw what 64 games a checkpoint show of these means, and the noise that comes with it."""
    means = np.clip(means, 0.01, 0.99)
    values = random.binomial(GAMES, means) / GAMES
    spread = {0: 0.12, 2: 0.25}
    for column, deviation in spread.items():
        values[:, column] = means[:, column] + random.normal(0, deviation / np.sqrt(GAMES), len(means))
    typical = values.mean(axis=0)
    noise = np.sqrt(typical * (1 - typical) / GAMES)
    for column, deviation in spread.items():
        noise[column] = deviation / np.sqrt(GAMES)
    return values, noise


def _wandering(random: np.random.Generator, correlation: float, names: int) -> Floats:
    path = random.normal(size=(CHECKPOINTS, names))
    for place in range(1, CHECKPOINTS):
        path[place] = correlation * path[place - 1] + np.sqrt(1 - correlation**2) * path[place]
    return path


def _constant(random: np.random.Generator) -> Floats:
    return np.tile(LEVELS[random.integers(4)], (CHECKPOINTS, 1))


def _ramp(random: np.random.Generator) -> Floats:
    return LEVELS[0] + (LEVELS[random.integers(1, 4)] - LEVELS[0]) * np.linspace(0, 1, CHECKPOINTS)[:, None]


def _saturating(random: np.random.Generator) -> Floats:
    course = 1 - np.exp(-4 * np.linspace(0, 1, CHECKPOINTS))[:, None]
    return LEVELS[0] + (LEVELS[random.integers(1, 4)] - LEVELS[0]) * course


def _autocorrelated(random: np.random.Generator) -> Floats:
    return LEVELS[random.integers(4)] + WANDER * _wandering(random, 0.8, len(WANDER))


def _wandering_together(random: np.random.Generator) -> Floats:
    signs = random.choice([-1.0, 1.0], len(WANDER))
    return LEVELS[random.integers(4)] + 2 * WANDER * signs * _wandering(random, 0.7, 1)


@pytest.mark.parametrize("null", [_constant, _ramp, _saturating, _autocorrelated, _wandering_together])
def test_runs_without_phases_give_one_segment_in_at_least_95_of_100(null: Callable[..., Floats]) -> None:
    single = 0
    for draw in range(100):
        random = np.random.default_rng([draw, 11])
        changes = find_changes(*_sampled(null(random), random), PARAMS.false_alarm, PARAMS.seed)
        single += changes.ends == (CHECKPOINTS,)
    assert single >= 95


@pytest.mark.parametrize(
    ("order", "blur", "wander", "draws"),
    [
        ((0, 1, 2, 3), 1, 0.0, 20),
        ((0, 3), 3, 0.0, 20),
        pytest.param((0, 1, 2, 3), 1, 0.0, 100, marks=pytest.mark.slow),
        pytest.param((0, 1, 2, 3), 3, 0.5, 100, marks=pytest.mark.slow),
        pytest.param((0, 2, 3), 3, 0.5, 100, marks=pytest.mark.slow),
        pytest.param((0, 1), 1, 0.5, 100, marks=pytest.mark.slow),
    ],
)
def test_runs_with_phases_are_cut_where_they_change(
    order: tuple[int, ...], blur: int, wander: float, draws: int
) -> None:
    agreements = []
    for draw in range(draws):
        random = np.random.default_rng([draw, 7])
        truth = _lengths(random, len(order))
        means = LEVELS[np.array(order)[truth]]
        padded = np.pad(means, ((blur // 2, blur // 2), (0, 0)), mode="edge")
        means = np.stack([np.convolve(column, np.ones(blur) / blur, "valid") for column in padded.T], axis=1)
        means = means + wander * WANDER * _wandering(random, 0.7, len(WANDER))
        changes = find_changes(*_sampled(means, random), PARAMS.false_alarm, PARAMS.seed)
        found = np.repeat(range(len(changes.ends)), np.diff((0, *changes.ends)))
        agreements.append(adjusted_rand_score(truth, found))
    assert np.mean(agreements) >= 0.9


def _lengths(random: np.random.Generator, segments: int) -> NDArray[np.int64]:
    while True:
        cuts = np.sort(random.choice(np.arange(1, CHECKPOINTS), segments - 1, replace=False))
        lengths = np.diff([0, *cuts, CHECKPOINTS])
        if lengths.min() >= 6:
            return np.repeat(range(segments), lengths)


@pytest.mark.parametrize(("checkpoints", "shortest"), [(1, 3), (12, 3), (50, 5), (100, 10)])
def test_a_phase_lasts_at_least_a_tenth_of_the_run(checkpoints: int, shortest: int) -> None:
    assert shortest_segment(checkpoints) == shortest


def test_a_series_that_never_varies_or_has_gaps_does_not_disturb() -> None:
    values = np.repeat([[0.8, 0.0, np.nan, 0.3], [0.5, 0.0, np.nan, 0.7]], 12, axis=0)
    values[:, 0] += 0.01 * np.sin(np.arange(24) * 7)
    values[[3, 20], 3] = np.nan
    changes = find_changes(values, np.full(4, 0.02), 0.01, 0)
    assert changes.ends == (12, 24)


def test_an_amount_above_twice_the_budget_counts_as_twice() -> None:
    message = {"role": "buyer", "text": ""}
    slip = pl.DataFrame(
        {
            "offers": [[50.0, 7000.0]],
            "budget": [100.0],
            "arguments": [[]],
            "messages": [[message] * 4],
            "stop": ["deal"],
            "price": [7000.0],
            "turns": [2],
        },
        schema_overrides={"arguments": pl.List(pl.String)},
    )
    (row,) = episode_features(slip).to_dicts()
    assert (row["first_offer_ratio"], row["last_offer_ratio"], row["concession"], row["saving"]) == (
        0.5,
        2.0,
        1.5,
        -1.0,
    )


def test_features_say_what_the_buyer_did() -> None:
    message = {"role": "buyer", "text": ""}
    games = pl.DataFrame(
        {
            "offers": [[60.0, None, 80.0], [None], [None]],
            "budget": [100.0, 100.0, 100.0],
            "arguments": [["competitor"], [], []],
            "messages": [[message] * 6, [message], [message]],
            "stop": ["deal", "invalid", "buyer_quit"],
            "price": [80.0, None, None],
            "turns": [3, 1, 1],
        },
        schema_overrides={"arguments": pl.List(pl.String)},
    )
    features = episode_features(games).with_columns(pl.all().round(3)).to_dicts()
    assert features[0] == {
        "first_offer_ratio": 0.6,
        "last_offer_ratio": 0.8,
        "concession": 0.2,
        "argument_share": 0.333,
        "reject_share": 0.333,
        "turns": 3.0,
        "took_ask": 0.0,
        "offer_taken": 1.0,
        "saving": 0.2,
        "stalled": 0.0,
        "left": 0.0,
        "broke_rule": 0.0,
    }
    assert features[1]["broke_rule"] == 1.0 and features[1]["reject_share"] == 0.0
    assert features[1]["first_offer_ratio"] == 0.6
    assert features[2]["left"] == 1.0


def test_kinds_come_earliest_first_and_are_told_in_words() -> None:
    games = probe_games([NAIVE, NAIVE, DEADLOCK, DEADLOCK], 32)
    steps = games["checkpoint"].to_numpy().astype(np.int64)
    clusters = cluster_episodes(episode_features(games), steps, 4, 0)
    assert [kind.name for kind in clusters.kinds] == ["A", "B", "C", "D"][: len(clusters.kinds)]
    assert "high first offers" in clusters.kinds[0].traits
    assert sum(kind.share for kind in clusters.kinds) == pytest.approx(1.0)
    means = [steps[clusters.members == place].mean() for place in range(len(clusters.kinds))]
    assert means == sorted(means)


def test_games_that_do_not_differ_are_of_one_kind() -> None:
    features = pl.DataFrame({name: [0.5] * 6 for name in FEATURES})
    clusters = cluster_episodes(features, np.arange(6), 4, 0)
    assert [(kind.share, kind.traits) for kind in clusters.kinds] == [(1.0, "like all games")]


@pytest.mark.parametrize(
    ("segments", "names"),
    [
        ([0], [Phase.NAIVE]),
        ([0, 1, 2, 3], [Phase.NAIVE, Phase.AGGRESSIVE, Phase.DEADLOCK, Phase.PERSUASION]),
        ([0, 3], [Phase.NAIVE, Phase.PERSUASION]),
        ([0, 2], [Phase.NAIVE, Phase.DEADLOCK]),
        ([3], [Phase.OTHER]),
        ([1, 1], [Phase.OTHER, Phase.OTHER]),
    ],
)
def test_segments_are_named_by_their_levels(segments: list[int], names: list[Phase]) -> None:
    levels = [dict(zip(NAMES, (float(value) for value in LEVELS[place]), strict=False)) for place in segments]
    assert label_segments(levels) == names
    assert not_observed(names) == [phase for phase in Phase if phase is not Phase.OTHER and phase not in names]


def test_an_unknown_level_names_nothing() -> None:
    levels = [dict.fromkeys(NAMES), dict.fromkeys(NAMES)]
    assert label_segments(levels) == [Phase.OTHER, Phase.OTHER]


def test_a_run_with_the_four_phases_is_told_from_its_games() -> None:
    report = analyse_phases(_full_run(), PARAMS)
    figures = report.figures
    assert [segment["phase"] for segment in figures["segments"]] == [
        "naive bargaining",
        "aggressive first offers",
        "deadlock",
        "persuasion",
    ]
    assert [boundary["step"] for boundary in figures["boundaries"]] == [60, 120, 180]
    assert all(boundary["low"] <= boundary["step"] <= boundary["high"] for boundary in figures["boundaries"])
    assert figures["not_observed"] == []
    assert any("planted" in note for note in figures["notes"])
    assert report.checkpoints.columns[:8] == ["step", *NAMES, "reward"]
    assert report.checkpoints.columns[-2:] == ["segment", "phase"]
    assert report.checkpoints["segment"].to_list() == [1] * 6 + [2] * 6 + [3] * 6 + [4] * 6
    json.dumps(figures, allow_nan=False)


def test_the_same_games_give_the_same_report() -> None:
    games = probe_games([NAIVE] * 6 + [PERSUASION] * 8, 16)
    first, second = analyse_phases(games, PARAMS), analyse_phases(games, PARAMS)
    assert first.figures == second.figures
    assert first.checkpoints.equals(second.checkpoints)


@pytest.mark.parametrize("checkpoints", [1, 2, 8])
def test_few_checkpoints_give_one_segment_and_say_so(checkpoints: int) -> None:
    behaviours = ([NAIVE] * 4 + [PERSUASION] * 4)[:checkpoints]
    figures = analyse_phases(probe_games(behaviours, 8), PARAMS).figures
    assert [segment["phase"] for segment in figures["segments"]] == ["naive bargaining"]
    assert figures["detection"]["reason"] == (
        f"{checkpoints} checkpoints are too few to tell a change from chance: 12 are needed"
    )
    assert figures["detection"]["p_value"] is None
    assert figures["boundaries"] == []


def test_checkpoints_without_a_deal_or_with_only_broken_games_do_not_crash() -> None:
    nothing, broken = Behaviour(0.5, 0.0, 0.5, 0.0), Behaviour(0.5, 0.0, 0.5, 0.0, 1.0)
    figures = analyse_phases(probe_games([nothing] * 7 + [broken] * 7, 6), PARAMS).figures
    assert "bargained_ratio" not in figures["series"][0]
    assert "first_offer_ratio" not in figures["series"][-1]
    json.dumps(figures, allow_nan=False)


def test_games_without_a_checkpoint_are_refused_in_one_line() -> None:
    games = probe_games([NAIVE], 4).with_columns(checkpoint=pl.lit(None, pl.Int64))
    with pytest.raises(PhasesError, match="expected probe games of checkpoints, got 4 games without one"):
        analyse_phases(games, PARAMS)


def test_the_stage_writes_its_figures_and_one_row_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "params.yaml").write_text(Path("params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    write_parquet(tmp_path / "data/rollouts/validation.parquet", probe_games([NAIVE, AGGRESSIVE], 8))
    monkeypatch.chdir(tmp_path)
    stages.phases.main()
    assert json.loads(Path("reports/phases.json").read_text(encoding="utf-8"))["summary"]["checkpoints"] == 2
    assert len(Path("reports/plots/phases.csv").read_text(encoding="utf-8").splitlines()) == 3
    assert capsys.readouterr().out.startswith("1 segment(s) over 2 checkpoints")


def _full_run() -> pl.DataFrame:
    return probe_games([NAIVE] * 6 + [AGGRESSIVE] * 6 + [DEADLOCK] * 6 + [PERSUASION] * 6, 32)
