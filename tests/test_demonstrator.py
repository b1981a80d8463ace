"""The naive demonstrator: what it bargains like, and what its Thought holds."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from dealwright.agents import NAIVE, WIDE, Argument, ConcessionSeller, Demonstrator, Habits, detect_argument
from dealwright.agents.demonstrator import WORDS, is_under, short
from dealwright.game import ActionKind, Negotiation, Role, overshoots
from dealwright.prompts.ruler import MARKS, offer_at, plain
from dealwright.rollout import Episode, episodes_frame, replay, rollout
from tests.games import a_scenario, say, some_scenarios


def demonstrations(habits: Habits = NAIVE, count: int = 120) -> list[Episode]:
    return rollout(
        some_scenarios(count), [0, 1], Demonstrator(habits), ConcessionSeller("training"), ("d", "training")
    )


def one(habits: Habits, *before: str, seed: int = 0) -> str:
    """Return what a demonstrator says after these messages."""
    game = Negotiation(a_scenario(seed=seed))
    for text in before:
        game.play(game.to_move, text)
    return Demonstrator(habits).respond([game])[0]


STEADY = Habits((0.75, 0.75), (0.05, 0.05), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), 0.0, 0.0)


@pytest.mark.parametrize("habits", [NAIVE, WIDE])
def test_every_message_is_valid_and_no_deal_is_above_the_budget(habits: Habits) -> None:
    stops = Counter(str(episode.outcome.stop) for episode in demonstrations(habits))
    assert set(stops) <= {"deal", "buyer_quit", "seller_quit", "max_turns"}
    assert stops["deal"] > 0.3 * stops.total()
    assert not any(overshoots(episode.scenario, episode.outcome) for episode in demonstrations(habits))


def test_it_opens_anywhere_climbs_by_any_step_and_pays_too_much() -> None:
    frame = episodes_frame(demonstrations())
    ratios = (frame["first_offer"] / frame["budget"]).to_list()
    assert min(ratios) < 0.53 and max(ratios) > 0.92
    assert all(0.475 <= ratio < 0.961 for ratio in ratios)
    for offers in frame["offers"]:
        made = [offer for offer in offers if offer is not None]
        assert made == sorted(made)
    reward = frame["reward"].mean()
    assert isinstance(reward, float) and 0.02 < reward < 0.35  # the fitted mute ladder has 0.37


def test_it_uses_each_kind_of_argument_at_times_and_never_always() -> None:
    frame = episodes_frame(demonstrations())
    said = Counter(kind for kinds in frame["arguments"] for kind in kinds)
    assert set(said) == set(Argument)
    assert 0.1 < said.total() / sum(len(offers) for offers in frame["offers"]) < 0.7


def test_it_shows_all_five_moves_of_a_buyer_but_a_foreign_one() -> None:
    kinds = Counter(
        entry.message.action.kind
        for episode in demonstrations(WIDE)
        for entry in replay(episode).transcript
        if entry.role is Role.BUYER and entry.message is not None
    )
    assert set(kinds) == {ActionKind.BUY, ActionKind.DEAL, ActionKind.REJECT, ActionKind.QUIT}


def thought(text: str) -> str:
    return text.partition("\nTalk:")[0].removeprefix("Thought: ")


def numbers(text: str) -> list[str]:
    """Return the numbers of a Thought behind the turn."""
    return re.findall(r"\d+(?:\.\d+)?", thought(text))[1:]


def test_the_first_thought_says_what_share_of_the_budget_it_bids() -> None:
    text = one(STEADY)
    assert numbers(text)[-1] == "75"
    assert text.endswith("\nAction: [BUY] $60")


def test_a_later_thought_writes_down_ask_and_budget_and_compares_them() -> None:
    over = one(STEADY, say("[BUY] $60"), say("[SELL] $96"))
    assert numbers(over)[:3] == ["96.00", "80.00", "120"]
    assert "over" in thought(over) and "under" not in thought(over)
    under = one(STEADY, say("[BUY] $60"), say("[SELL] $79.99"))
    assert numbers(under)[:3] == ["79.99", "80.00", "99"]
    assert "under" in thought(under) and "over" not in thought(under)


def test_an_ask_below_the_budget_has_the_mark_of_the_ruler_that_would_meet_it() -> None:
    asks = {"60": "75", "60.01": "78", "20": "48", "79.21": "99"}
    texts = {ask: one(STEADY, say("[BUY] $15"), say(f"[SELL] ${ask}")) for ask in asks}
    assert {ask: re.findall(r"under (\d+)%", text) for ask, text in texts.items()} == {
        ask: [mark] for ask, mark in asks.items()
    }


def test_a_later_offer_is_written_as_a_raise_of_the_last_one() -> None:
    assert thought(one(STEADY)).endswith("bid 75%.")
    assert thought(one(STEADY, say("[BUY] $60"), say("[SELL] $96"))).endswith("bid 75%+6=81%.")
    assert thought(one(STEADY, say("[REJECT]"), say("[SELL] $96"))).endswith("bid 81%.")


def test_it_never_goes_below_its_last_offer() -> None:
    text = one(STEADY, say("[BUY] $76.8"), say("[SELL] $96"))
    assert thought(text).endswith("bid 96%+0=96%.")
    assert text.endswith("Action: [BUY] $76.8")


def test_its_offers_are_marks_of_the_ruler() -> None:
    frame = episodes_frame(demonstrations(count=40))
    for budget, offers in frame.select("budget", "offers").iter_rows():
        assert {offer for offer in offers if offer is not None} <= {offer_at(mark, budget) for mark in MARKS}


@pytest.mark.parametrize(("percent", "budget"), [(63, 100.03), (57, 176.99), (72, 1411.2), (96, 3.19), (90, 112.1)])
def test_the_share_that_an_offer_was_meant_to_be_is_told_from_the_rounded_offer(percent: int, budget: float) -> None:
    game = Negotiation(replace(a_scenario(), budget=budget))
    for text in (say(f"[BUY] ${plain(offer_at(percent, budget))}"), say(f"[SELL] ${budget + 50:.2f}")):
        game.play(game.to_move, text)
    assert f"bid {percent}%+" in Demonstrator(replace(STEADY, first_offer=(0.5, 0.5))).respond([game])[0]


def test_from_the_second_on_a_thought_says_which_hints_are_left_to_take_up() -> None:
    hinting = [say("[BUY] $60"), say("[SELL] $96", "My shelf is full. People do compare.")]
    assert thought(one(STEADY, *hinting)).startswith("turn 2. hears shelf rival.")
    taken = [*hinting, say("[BUY] $60", "It is still unsold."), say("[SELL] $96", "Fair point.")]
    assert thought(one(STEADY, *taken)).startswith("turn 3. hears rival.")
    both = [*taken, say("[BUY] $60", "Another shop asks less."), say("[SELL] $96", "Fair point.")]
    assert thought(one(STEADY, *both)).startswith("turn 4. hears nothing.")
    assert "hears" not in one(STEADY)


def test_each_thought_begins_with_the_turn() -> None:
    round = [say("[BUY] $50"), say("[SELL] $96")]
    assert [thought(one(STEADY, *round * past))[:7] for past in range(6)] == [f"turn {turn}." for turn in range(1, 7)]


def plans_and_hearings(echo: float) -> list[tuple[Argument | None, str]]:
    """Return, for thirty seeds, the kind argued and the word of the plan, after a seller that hints at two kinds."""
    keen = Habits((0.75, 0.75), (0.05, 0.05), (1.0, 1.0), (echo, echo), (0.0, 0.0), 0.0, 0.0)
    hinting = [say("[BUY] $60"), say("[SELL] $96", "My shelf is full. People do compare.")]
    texts = [one(keen, *hinting, seed=seed) for seed in range(30)]
    plans = [plan.group(1) for text in texts if (plan := re.search(r" say (\w+)\. bid", thought(text)))]
    return list(zip([detect_argument(text.partition("Talk:")[2]) for text in texts], plans, strict=True))


def test_it_says_what_its_thought_plans_to_say() -> None:
    assert all(kind is not None and WORDS[kind] == plan for kind, plan in plans_and_hearings(0.0))
    assert "say" not in thought(one(STEADY))


def test_it_argues_only_while_a_hint_is_left_to_take_up() -> None:
    keen = Habits((0.75, 0.75), (0.05, 0.05), (1.0, 1.0), (1.0, 1.0), (0.0, 0.0), 0.0, 0.0)
    hinting = [say("[BUY] $60"), say("[SELL] $96", "My shelf is full.")]
    taken = [*hinting, say("[BUY] $60", "It is still unsold."), say("[SELL] $96", "Fair point.")]
    assert "say" not in thought(one(keen))
    assert "say shelf" in thought(one(keen, *hinting))
    assert "say" not in thought(one(keen, *taken))


def test_it_takes_up_what_it_heard_as_often_as_its_habit_is() -> None:
    assert {plan for _, plan in plans_and_hearings(1.0)} == {"shelf", "rival"}
    assert len({plan for _, plan in plans_and_hearings(0.0)}) == 6


def test_it_takes_an_ask_below_its_next_offer_at_once() -> None:
    text = one(STEADY, say("[BUY] $50"), say("[SELL] $55.50"))
    assert thought(text).endswith("take it.")
    assert text.endswith("\nTalk: Agreed.\nAction: [DEAL] $55.50")


def test_on_the_last_turn_it_takes_any_ask_that_it_can_afford() -> None:
    five = [say("[BUY] $50"), say("[SELL] $76.50")] * 5
    assert one(STEADY, *five).endswith("Action: [DEAL] $76.50")
    dear = [say("[BUY] $50"), say("[SELL] $77")] * 5  # above 96 % of the budget: too near to be judged
    assert re.search(r"Action: \[BUY\] \$\d+(\.\d+)?$", one(STEADY, *dear))


def test_its_last_offer_may_be_any_up_to_its_highest_where_that_is_its_habit() -> None:
    five = [say("[BUY] $50"), say("[SELL] $79.50")] * 5
    low = replace(STEADY, first_offer=(0.5, 0.5), step=(0.02, 0.02), highest_percent=96, last_push=True)
    last = {int(numbers(one(low, *five, seed=seed))[-1]) for seed in range(40)}
    assert 57 <= min(last) < 68 and 88 < max(last) <= 96
    still = replace(low, last_push=False)
    assert max(int(numbers(one(still, *five, seed=seed))[-1]) for seed in range(40)) < 68


def test_it_leaves_a_seller_that_stays_too_dear_when_its_habit_is_to_quit() -> None:
    quitter = Habits((0.75, 0.75), (0.05, 0.05), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), 0.0, 1.0)
    dear = [say("[BUY] $50"), say("[SELL] $95")]
    assert "Action: [BUY]" in one(quitter, *dear)
    assert one(quitter, *dear * 2).endswith("\nTalk: No, thank you.\nAction: [QUIT]")


def test_it_never_bids_above_99_per_cent_of_the_budget() -> None:
    eager = Habits((0.97, 0.97), (0.12, 0.12), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), 0.0, 0.0)
    dear = [say("[BUY] $50"), say("[SELL] $95")] * 4
    assert numbers(one(eager, *dear))[-1] == "99"
    assert one(eager, *dear).endswith("Action: [BUY] $79.2")


def test_what_it_says_follows_from_seed_round_and_turn() -> None:
    assert one(NAIVE, seed=1) == one(NAIVE, seed=1)
    assert len({one(NAIVE, seed=seed) for seed in range(30)}) > 20
    games = [Negotiation(a_scenario(), round=round) for round in range(30)]
    assert len(set(Demonstrator().respond(games))) > 20


def test_an_amount_in_thought_has_cents_below_100_dollars_only_and_is_cut() -> None:
    assert [short(amount) for amount in (5.018, 79.999, 123.96, 1234.9)] == ["5.01", "79.99", "123", "1234"]


def test_an_ask_counts_as_affordable_only_where_the_written_digits_show_it() -> None:
    assert is_under(1233.99, 1234.56)
    assert not is_under(1234.0, 1234.56)
    assert not is_under(1235.0, 1234.56)
