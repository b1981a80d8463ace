"""Make data/base: a tiny causal language model that knows the format and the numbers, and nothing of strategy.

It learns from the naive demonstrator's games with wide habits: titles of the bundled catalogue, prices and budgets
drawn at random, every column of the concession seller. What it is to learn is reckoning - to scale the budget, to
compare the ask with it, to copy a price, to note which arguments the seller hinted at. Run by `make pretrain`; no DVC
stage, since its result is an input.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dealwright.agents import (
    COLUMNS,
    WIDE,
    Agent,
    ConcessionSeller,
    Demonstrator,
    FloorOnlySeller,
    Habits,
    conversation_of,
)
from dealwright.agents.demonstrator import bid, comparison, short
from dealwright.game import Negotiation, Product, Role, Scenario
from dealwright.prompts.render import opening_buyer, render_buyer
from dealwright.prompts.ruler import MARKS, offer_at, plain, ruler
from dealwright.rollout import play
from dealwright.training.rows import Row
from dealwright.training.tokenizer import ASSISTANT, END, train_tokenizer

SEED = 20260101
HIDDEN, LAYERS, HEADS, HEAD_SIZE, INNER = 192, 4, 3, 64, 512
LEARNING_RATE, WARM_UP, WEIGHT_DECAY = 3e-3, 100, 0.02
RESTART, RESTART_RATE = 2_600, 0.4  # the step at which the rate starts again, and its share of the first one
BATCH_TOKENS = 8_192
BLOCK = 512  # games played at once and sorted into batches of like length


def random_scenario(titles: Sequence[tuple[str, str]], draw: Random) -> Scenario:
    """Return a scenario with a real title and prices of its own, so that no price can be learnt by heart."""
    title, category = draw.choice(titles)
    price = round(math.exp(draw.uniform(math.log(3), math.log(12_000))), 2)
    price = draw.choice([price, math.floor(price) + 0.99, float(max(3, round(price)))])
    cost = max(0.05, round(price * min(0.99, max(0.05, draw.gauss(0.51, 0.2))), 2))
    budget = price * draw.choice([0.8, 0.8, draw.uniform(0.6, 0.98)])
    product = Product(f"{draw.getrandbits(48):012x}", title, category, "", price, cost, price)
    return Scenario(product.id, product, price, cost, budget, draw.getrandbits(48), "train")


def play_block(titles: Sequence[tuple[str, str]], draw: Random, games: int) -> list[Negotiation]:
    """Play a block of demonstrator games, a slice against each seller, and return them finished."""
    sellers: list[Agent] = [*(ConcessionSeller(column) for column in COLUMNS), FloorOnlySeller()]
    buyers = [Demonstrator(WIDE), Demonstrator(WIDE), Demonstrator(Habits())]
    played = []
    for seller in sellers:
        for buyer in buyers:
            block = [
                Negotiation(random_scenario(titles, draw), round=draw.randrange(1000))
                for _ in range(games // (len(sellers) * len(buyers)))
            ]
            play(block, buyer, seller)
            played += block
    return played


def conversation(game: Negotiation) -> list[dict[str, str]]:
    """Return a finished game as the buyer's conversation, from the system prompt to its last message."""
    prompt = render_buyer(game.scenario, "brief", game.max_turns)
    turns = conversation_of(game, Role.BUYER, prompt, opening_buyer("brief"))
    while turns[-1]["role"] != "assistant":
        turns.pop()
    return turns


def own_rows(tokenizer: PreTrainedTokenizerFast, conversations: Sequence[list[dict[str, str]]]) -> list[Row]:
    """Return training rows in one pass, by the role tokens of our own template."""
    assistant, end = tokenizer.convert_tokens_to_ids([ASSISTANT, END])
    texts = tokenizer.apply_chat_template(conversations, tokenize=False)
    rows = []
    for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
        mask, speaking = [], False
        for token in ids:
            mask.append(int(speaking))
            speaking = token == assistant or (speaking and token != end)
        rows.append(Row(tuple(ids), tuple(mask)))
    return rows


def drill_rows(tokenizer: PreTrainedTokenizerFast, draw: Random, rows: int) -> list[Row]:
    """Return rows of bare reckoning: a ruler, then twelve comparisons, offers or raises; only answers are learnt.

    Games ask for few comparisons, three in four of them with the same answer; comparing is learnt from these.
    """
    found = []
    for _ in range(rows):
        ids: list[int] = []
        mask: list[int] = []
        budget = math.exp(draw.uniform(math.log(2), math.log(12_000)))
        parts = [(f"{ruler(budget)}\n", "")]
        parts += [drill(draw, budget) for drill in draw.choices((_compare, _scale, _raise), (0.4, 0.4, 0.2), k=12)]
        for part in parts:
            for text, counted in zip(part, (0, 1), strict=True):
                tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
                ids += tokens
                mask += [counted] * len(tokens)
        found.append(Row(tuple(ids), tuple(mask)))
    return found


def _compare(draw: Random, budget: float) -> tuple[str, str]:
    ask = budget * (draw.uniform(0.85, 1.15) if draw.random() < 0.5 else draw.uniform(0.4, 1.6))
    question, verdict, percent = comparison(ask, budget).rsplit(" ", 2)
    return f" {question}", f" {verdict} {percent}"


def _scale(draw: Random, budget: float) -> tuple[str, str]:
    percent = draw.choice(MARKS)
    last = draw.choice([None, draw.choice([mark for mark in MARKS if mark <= percent])])
    question = f" mine {short(budget)}. {bid(percent, last)}\nTalk:\nAction: [BUY] $"
    return question, f"{plain(offer_at(percent, budget))}\n"


def _raise(draw: Random, budget: float) -> tuple[str, str]:
    last = draw.choice(MARKS)
    question, answer = bid(draw.choice([mark for mark in MARKS if last <= mark <= last + 30]), last).split("=")
    return f" {question}=", f"{answer} "


class Games(torch.utils.data.IterableDataset):
    """An endless stream of batches of rows of like length, games and drills in turn; one worker keeps its order."""

    def __init__(self, titles: Sequence[tuple[str, str]], tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
        self.titles = titles
        self.tokenizer = tokenizer
        self.seed = seed

    def __iter__(self) -> Iterator[list[Row]]:
        """Yield batches of at most BATCH_TOKENS tokens."""
        draw = Random(self.seed)
        while True:
            games = own_rows(self.tokenizer, [conversation(game) for game in play_block(self.titles, draw, BLOCK)])
            drills = drill_rows(self.tokenizer, draw, BLOCK)
            for pair in zip(*(self._batches(rows, draw) for rows in (games, drills)), strict=False):
                yield from pair

    @staticmethod
    def _batches(rows: list[Row], draw: Random) -> list[list[Row]]:
        rows.sort(key=lambda row: len(row.ids))
        batches: list[list[Row]] = [[]]
        for row in rows:
            if len(row.ids) * (len(batches[-1]) + 1) > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(row)
        draw.shuffle(batches)
        return batches


def loss_of(model: LlamaForCausalLM, rows: Sequence[Row]) -> torch.Tensor:
    """Return the mean cross-entropy in nats over the buyer's tokens."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for index, row in enumerate(rows):
        ids[index, : len(row.ids)] = torch.tensor(row.ids)
        mask[index, : len(row.mask)] = torch.tensor(row.mask, dtype=torch.bool)
    # Right padding needs no attention mask: under causal attention no real token sees what follows it.
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1][mask[:, 1:]]
    return cross_entropy(model.lm_head(hidden).float(), ids[:, 1:][mask[:, 1:]])


def new_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return the tiny Llama with fresh weights."""
    torch.manual_seed(SEED)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=1,
            head_dim=HEAD_SIZE,
            intermediate_size=INNER,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )


def rate_share(step: int, steps: int) -> float:
    """Return the share of the learning rate at a step: it falls to zero twice, the second time for the numbers."""
    first = min(RESTART, steps)
    if step < first:
        return min(1.0, (step + 1) / WARM_UP) * (1 - step / first)
    return RESTART_RATE * min(1.0, (step - first + 1) / WARM_UP) * max(0.0, 1 - (step - first) / max(1, steps - first))


def read_titles(folder: Path) -> list[tuple[str, str]]:
    """Return the titles and categories of the bundled catalogue."""
    return [
        (json.loads(line)["title"], file.stem)
        for file in sorted(folder.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def train_base(folder: Path, steps: int, fast: bool) -> None:
    """Train the base model and save it in float16; `fast` compiles it and computes in bfloat16."""
    titles = read_titles(Path("data/catalogue"))
    draw = Random(SEED)
    games = play_block(titles, draw, 6000)
    tokenizer = train_tokenizer(turn["content"] for game in games for turn in conversation(game))
    model = new_model(tokenizer)
    if fast:
        model.set_attn_implementation("eager")  # faster than the fused kernel in bfloat16 on a processor
        model.model.forward = torch.compile(model.model.forward, dynamic=True)
    # Muon for the matrices inside the layers, AdamW for the embedding and the scales.
    matrices = [weight for weight in model.model.layers.parameters() if weight.dim() > 1]
    inside = set(map(id, matrices))
    others = [weight for weight in model.parameters() if id(weight) not in inside]
    optimizers = [
        torch.optim.Muon(matrices, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_share(step, steps)) for optimizer in optimizers
    ]
    loader = torch.utils.data.DataLoader(
        Games(titles, tokenizer, SEED), batch_size=None, num_workers=1, prefetch_factor=64
    )
    print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters, {len(tokenizer)} tokens", flush=True)
    for step, rows in zip(range(steps), loader, strict=False):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=fast):
            loss = loss_of(model, rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if step % 50 < 2:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 500 == 499 or step == steps - 1:
            save(model, tokenizer, folder)


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write weights in float16 and the tokenizer as a Hugging Face folder."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().half() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    model.save_pretrained(folder, state_dict=weights)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("data/base"))
    parser.add_argument("--steps", type=int, default=3400)
    parser.add_argument("--fast", action="store_true", help="compile, and compute in bfloat16; needs a C++ compiler")
    arguments = parser.parse_args()
    train_base(arguments.folder, arguments.steps, arguments.fast)
