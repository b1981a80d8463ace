"""How the tiny base model is taught."""

import re
from random import Random

import pytest

from dealwright.training.pretrain import drill_rows, random_scenario, rate_share
from tests.tiny import TITLES, own_tokenizer


def test_the_learning_rate_falls_to_zero_twice() -> None:
    assert rate_share(0, 3400) == pytest.approx(0.01)
    assert rate_share(1300, 3400) == pytest.approx(0.5)
    assert rate_share(2599, 3400) == pytest.approx(1 / 2600)
    assert rate_share(2600, 3400) == pytest.approx(0.004)
    assert rate_share(3000, 3400) == pytest.approx(0.2)
    assert rate_share(3399, 3400) == pytest.approx(0.4 / 800)


def test_a_short_run_falls_to_zero_once() -> None:
    assert rate_share(5, 10) == pytest.approx(0.06 * 0.5)
    assert rate_share(9, 10) == pytest.approx(0.1 * 0.1)


def test_a_drill_is_a_ruler_and_twelve_questions_of_which_the_answers_alone_count() -> None:
    tokenizer = own_tokenizer()
    for row in drill_rows(tokenizer, Random(3), 6):
        asked = tokenizer.decode([id for id, bit in zip(row.ids, row.mask, strict=True) if not bit])
        answered = tokenizer.decode([id for id, bit in zip(row.ids, row.mask, strict=True) if bit])
        assert re.match(r"(\d+% [\d.]+ ?){18}\n", asked)
        compared, offered = answered.count("under") + answered.count("over"), answered.count("\n")
        raised = re.findall(r"bid \d+%\+\d+=(?!\d)", asked)
        assert compared + offered + len(raised) == 12
        whole = tokenizer.decode(row.ids)
        for last, by, percent in re.findall(r"bid (\d+)%\+(\d+)=(\d+)%", whole):
            assert int(last) + int(by) == int(percent)


def test_prices_of_the_base_s_games_are_its_own_and_a_deal_is_mostly_there() -> None:
    draw = Random(1)
    scenarios = [random_scenario(TITLES, draw) for _ in range(200)]
    assert all(3 <= scenario.list_price <= 12_000 and scenario.cost < scenario.list_price for scenario in scenarios)
    assert 150 < sum(scenario.budget > scenario.cost for scenario in scenarios) < 200
