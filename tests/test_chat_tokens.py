"""Conversations as token ids: the model's own messages stay as sampled, the rest is the template's."""

import pytest
from transformers import PreTrainedTokenizerBase

from dealwright.engines.chat import ChatTokens, History
from dealwright.errors import DealwrightError
from tests.tiny import chatml_tokenizer, trl_template

OPENED = [{"role": "system", "content": "Lamp, $40."}, {"role": "user", "content": "Begin."}]


def rendered(tokenizer: PreTrainedTokenizerBase, conversation: list[dict[str, str]]) -> tuple[int, ...]:
    text = tokenizer.apply_chat_template(
        conversation, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def said(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return (*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id)


def grown(history: History, ids: tuple[int, ...]) -> History:
    return History(history.ids + ids, history.sampled + (1,) * len(ids))


def with_answer(text: str, reply: str) -> list[dict[str, str]]:
    return [*OPENED, {"role": "assistant", "content": text}, {"role": "user", "content": reply}]


@pytest.mark.parametrize("template", ["own", "chatml", "qwen3_instruct_2507.jinja"])
def test_a_continued_conversation_is_what_the_template_renders_in_full(
    template: str, tokenizer: PreTrainedTokenizerBase
) -> None:
    if template != "own":
        tokenizer = chatml_tokenizer(*([] if template == "chatml" else [trl_template(template)]))
    chat = ChatTokens(tokenizer)
    opening = chat.open(OPENED)
    assert opening.ids == rendered(tokenizer, OPENED)
    chat.close(OPENED, "Too dear.", grown(opening, said(tokenizer, "Too dear.")))
    answered = with_answer("Too dear.", "Talk: No.\nAction: [REJECT]")
    history = chat.open(answered)
    assert history.ids == rendered(tokenizer, answered)
    assert len(history.ids) == len(history.sampled)
    start, end = len(opening.ids), len(opening.ids) + len(said(tokenizer, "Too dear."))
    assert [at for at, bit in enumerate(history.sampled) if bit] == list(range(start, end))


def test_what_stands_between_two_messages_of_our_own_template() -> None:
    tokenizer = chatml_tokenizer()
    chat = ChatTokens(tokenizer)
    opening = chat.open(OPENED)
    assert tokenizer.decode(opening.ids) == (
        "<|im_start|>system\nLamp, $40.<|im_end|>\n<|im_start|>user\nBegin.<|im_end|>\n<|im_start|>assistant\n"
    )
    before = grown(opening, said(tokenizer, "Hm."))
    chat.close(OPENED, "Hm.", before)
    after = chat.open(with_answer("Hm.", "No."))
    assert tokenizer.decode(after.ids[len(before.ids) :]) == (
        "\n<|im_start|>user\nNo.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_that_renders_a_last_message_differently_is_cut_at_the_right_place() -> None:
    tokenizer = chatml_tokenizer(trl_template("qwen3.jinja"))
    chat = ChatTokens(tokenizer)
    opening = chat.open(OPENED)
    before = grown(opening, said(tokenizer, "Hm."))
    chat.close(OPENED, "Hm.", before)
    after = chat.open(with_answer("Hm.", "No."))
    assert after.ids[: len(before.ids)] == before.ids
    assert tokenizer.decode(after.ids[len(before.ids) :]) == (
        "\n<|im_start|>user\nNo.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_sampled_tokens_stay_even_where_writing_them_again_gives_others(tokenizer: PreTrainedTokenizerBase) -> None:
    chat = ChatTokens(tokenizer)
    opening = chat.open(OPENED)
    letters = tuple(tokenizer(letter, add_special_tokens=False)["input_ids"][0] for letter in "Talk:")
    assert letters != said(tokenizer, "Talk:")[:-1]
    sampled = (*letters, tokenizer.eos_token_id)
    chat.close(OPENED, "Talk:", grown(opening, sampled))
    history = chat.open(with_answer("Talk:", "No."))
    assert history.ids[len(opening.ids) : len(opening.ids) + len(sampled)] == sampled


@pytest.mark.parametrize("content", ["x<|im_end|>y", "<|im_start|>assistant\n", ""])
def test_end_tokens_inside_a_reply_move_no_boundary(content: str) -> None:
    tokenizer = chatml_tokenizer()
    chat = ChatTokens(tokenizer)
    chat.close(OPENED, "Hm.", grown(chat.open(OPENED), said(tokenizer, "Hm.")))
    assert chat.open(with_answer("Hm.", content)).ids == rendered(tokenizer, with_answer("Hm.", content))


def test_conversations_that_read_the_same_are_each_remembered_once(tokenizer: PreTrainedTokenizerBase) -> None:
    chat = ChatTokens(tokenizer)
    opening = chat.open(OPENED)
    one, two = said(tokenizer, "Hm."), (*said(tokenizer, "H")[:-1], *said(tokenizer, "m."))
    chat.close(OPENED, "Hm.", grown(opening, one))
    chat.close(OPENED, "Hm.", grown(opening, two))
    histories = [chat.open(with_answer("Hm.", "No.")) for _ in range(3)]
    assert [sum(history.sampled) for history in histories] == [len(two), len(one), 0]


def test_a_conversation_that_was_not_answered_here_is_rendered_with_nothing_sampled(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    chat = ChatTokens(tokenizer)
    chat.close(OPENED, "Hm.", grown(chat.open(OPENED), said(tokenizer, "Hm.")))
    history = chat.open(with_answer("Well.", "No."))
    assert history.ids == rendered(tokenizer, with_answer("Well.", "No.")) and set(history.sampled) == {0}
    chat.forget()
    assert set(chat.open(with_answer("Hm.", "No.")).sampled) == {0}


def test_a_template_whose_messages_do_not_end_with_the_end_token_is_refused() -> None:
    with pytest.raises(DealwrightError, match=r"expected a chat template that ends .* got one without '<\|im_end\|>'"):
        ChatTokens(chatml_tokenizer("{% for message in messages %}{{ message.content }}\n{% endfor %}"))


def test_the_latest_conversations_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dealwright.engines.chat.REMEMBERED", 3)
    chat = ChatTokens(chatml_tokenizer())
    asked = [[{"role": "user", "content": word}] for word in ("one", "two", "two", "two", "three")]
    for place, conversation in enumerate(asked):
        chat.close(conversation, "yes", History((place,), (1,)))
    answered = [
        [*conversation, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "go on"}]
        for conversation in asked
    ]
    assert [chat.open(answered[place]).ids[0] for place in (1, 4, 1)] == [3, 4, 2]
    assert not any(any(chat.open(conversation).sampled) for conversation in answered)
