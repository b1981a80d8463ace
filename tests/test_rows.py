"""Training rows: the four lengths and masks that silent bugs hide in."""

from itertools import pairwise
from random import Random

import pytest
from transformers import PreTrainedTokenizerBase

from dealwright.agents import ConcessionSeller, LanguageModelAgent
from dealwright.engines.base import Completion, Sampling
from dealwright.errors import DealwrightError
from dealwright.game import Negotiation, Role
from dealwright.prompts.render import opening_buyer
from dealwright.rollout import play, replay
from dealwright.training.pretrain import conversation, own_rows, play_block
from dealwright.training.rows import Row, rendered_row, sampled_row
from dealwright.training.warmstart import demonstration_rows
from tests.tiny import (
    TITLES,
    ScriptedEngine,
    buyer_prompts,
    chatml_tokenizer,
    demonstrations,
    spoken_parts,
    tiny_scenarios,
    trl_template,
)

DIALOGUE = [
    {"role": "system", "content": "Lamp"},
    {"role": "user", "content": "Begin."},
    {"role": "assistant", "content": "Hm."},
    {"role": "user", "content": "No."},
    {"role": "assistant", "content": "Well."},
    {"role": "user", "content": "Sold."},
]


def played(tokenizer: PreTrainedTokenizerBase, count: int) -> tuple[list[Negotiation], list[list[Completion]]]:
    """Play scripted games whose messages are single-letter tokens."""
    scenarios = tiny_scenarios(count)
    engine = ScriptedEngine(None, tokenizer)
    buyer = LanguageModelAgent(
        engine, Role.BUYER, buyer_prompts(scenarios), opening_buyer("brief"), Sampling(1.0, 96, 0)
    )
    games = [Negotiation(scenario) for scenario in scenarios]
    play(games, buyer, ConcessionSeller("training"))
    return games, [buyer.spoken[game] for game in games]


@pytest.mark.parametrize("own", [True, False], ids=["own", "chatml"])
def test_the_trained_tokens_are_exactly_what_the_buyer_said(own: bool, tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer = tokenizer if own else chatml_tokenizer()
    games, spoken = played(tokenizer, 6)
    for game, completions in zip(games, spoken, strict=True):
        row = sampled_row(completions)
        said = [entry.text + tokenizer.eos_token for entry in game.transcript if entry.role is Role.BUYER]
        assert spoken_parts(tokenizer, row.ids, row.mask) == said
    assert max(map(len, spoken)) > 2


def test_ids_mask_and_log_probabilities_have_equal_lengths(tokenizer: PreTrainedTokenizerBase) -> None:
    _, spoken = played(tokenizer, 6)
    for completions in spoken:
        row = sampled_row(completions)
        assert len(row.ids) == len(row.mask)
        assert sum(row.mask) == sum(len(completion.token_ids) for completion in completions)
        assert sum(row.mask) == sum(len(completion.logprobs) for completion in completions)


@pytest.mark.parametrize("own", [True, False], ids=["own", "chatml"])
def test_the_seller_s_tokens_are_the_difference_of_two_renderings(
    own: bool, tokenizer: PreTrainedTokenizerBase
) -> None:
    tokenizer = tokenizer if own else chatml_tokenizer()
    games, spoken = played(tokenizer, 6)
    for game, completions in zip(games, spoken, strict=True):
        head = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
        for at, (before, after) in enumerate(pairwise(completions)):
            reply = game.view(Role.BUYER)[2 * at + 1]
            whole = tokenizer.apply_chat_template([*head, reply], tokenize=False, add_generation_prompt=True)
            start = whole.rindex("y" + tokenizer.eos_token) + 1 + len(tokenizer.eos_token)
            said = len(before.prompt_ids) + len(before.token_ids)
            assert tokenizer.decode(after.prompt_ids[said:]) == whole[start:]
            assert after.prompt_ids[said:] == tuple(tokenizer(whole[start:], add_special_tokens=False)["input_ids"])


def test_a_row_is_the_whole_dialogue_with_the_buyer_s_messages_marked() -> None:
    first = Completion("", "stop", (9, 9), (1, 0), (0.0, 0.0), (0, 0))
    second = Completion("", "stop", (9, 9, 1, 0, 8), (2, 3, 0), (0.0,) * 3, (0, 0, 1, 1, 0))
    assert sampled_row([first, second]) == Row((9, 9, 1, 0, 8, 2, 3, 0), (0, 0, 1, 1, 0, 1, 1, 1))


def test_an_earlier_message_that_is_not_in_the_row_as_sampled_is_an_error() -> None:
    first = Completion("", "stop", (9, 9), (1, 0), (0.0, 0.0), (0, 0))
    lost = Completion("", "stop", (9, 9, 1, 0, 8), (2, 0), (0.0, 0.0), (0, 0, 0, 0, 0))
    with pytest.raises(ValueError, match="expected the tokens of 2 messages in the dialogue's row, got 1"):
        sampled_row([first, lost])


def test_a_row_whose_lengths_differ_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected one mask bit a token, got 1 for 2 tokens"):
        Row((1, 2), (1,))


def test_a_written_dialogue_is_masked_on_the_buyer_s_turns_with_their_end_tokens(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    row = rendered_row(tokenizer, DIALOGUE)
    assert tokenizer.decode(row.ids) == (
        "<|system|>Lamp<|end|><|user|>Begin.<|end|><|assistant|>Hm.<|end|><|user|>No.<|end|><|assistant|>Well.<|end|>"
    )
    assert spoken_parts(tokenizer, row.ids, row.mask) == ["Hm.<|end|>", "Well.<|end|>"]
    chatml = chatml_tokenizer()
    row = rendered_row(chatml, DIALOGUE)
    assert spoken_parts(chatml, row.ids, row.mask) == ["Hm.<|im_end|>", "Well.<|im_end|>"]
    assert chatml.decode(row.ids).endswith("<|im_start|>assistant\nWell.<|im_end|>")


def test_of_a_written_dialogue_what_the_buyer_was_given_is_not_trained(tokenizer: PreTrainedTokenizerBase) -> None:
    row = rendered_row(tokenizer, DIALOGUE, given=4)
    assert row.ids == rendered_row(tokenizer, DIALOGUE).ids
    assert spoken_parts(tokenizer, row.ids, row.mask) == ["Well.<|end|>"]


def test_demonstrations_with_full_instructions_do_not_train_the_example(tokenizer: PreTrainedTokenizerBase) -> None:
    scenarios = tiny_scenarios(1)
    [episode] = demonstrations(scenarios)
    [row] = demonstration_rows(tokenizer, [episode], {scenarios[0].id: "Buy."}, "full")
    said = [text + "<|end|>" for role, text in episode.messages if role == Role.BUYER]
    assert spoken_parts(tokenizer, row.ids, row.mask) == said


def test_a_template_that_rewrites_earlier_turns_is_refused() -> None:
    with pytest.raises(DealwrightError, match="rewrites earlier turns"):
        rendered_row(chatml_tokenizer(trl_template("qwen3.jinja")), DIALOGUE)


def test_the_base_model_s_rows_are_those_of_the_template(tokenizer: PreTrainedTokenizerBase) -> None:
    conversations = [conversation(game) for game in play_block(TITLES, Random(3), 18)]
    assert own_rows(tokenizer, conversations) == [rendered_row(tokenizer, turns) for turns in conversations]


def test_demonstrations_read_as_the_buyer_will_see_its_games(tokenizer: PreTrainedTokenizerBase) -> None:
    scenarios = tiny_scenarios(4)
    prompts = buyer_prompts(scenarios)
    episodes = demonstrations(scenarios, 2)
    rows = demonstration_rows(tokenizer, episodes, prompts, "brief")
    agent = LanguageModelAgent(
        ScriptedEngine(None, tokenizer),
        Role.BUYER,
        prompts,
        opening_buyer("brief"),
        Sampling(1.0, 96, 0),
    )
    for episode, row in zip(episodes, rows, strict=True):
        game = replay(episode)
        seen = agent.conversation(game)
        while seen[-1]["role"] != "assistant":
            seen.pop()
        assert row == rendered_row(tokenizer, seen)
        said = [text + "<|end|>" for role, text in episode.messages if role == Role.BUYER]
        assert spoken_parts(tokenizer, row.ids, row.mask) == said
