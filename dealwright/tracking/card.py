"""The model card that goes with a version, as the README.md among its files."""

from collections.abc import Mapping

from dealwright.params import Params, Train

_SHOWN = {
    "reward": "mean reward",
    "deal_rate": "games that end in a deal",
    "bargained_ratio": "share of the zone won in deals",
    "first_offer_ratio": "first offer as a share of the budget",
    "overshoot_rate": "games that end above the budget",
    "invalid_rate": "games that end by a broken rule",
    "leak_rate": "games in which it states its budget",
}


def model_card(name: str, tags: Mapping[str, str], params: Params) -> str:
    """Write the card of a version from its tags and the parameters that it was trained with."""
    revisions = "".join(
        f"| {words} | `{tags[key]}` |\n"
        for key, words in (
            ("git_revision", "git revision"),
            ("dvc_revision", "DVC hash of the checkpoints"),
            ("scenarios_hash", "SHA-256 of the scenario file"),
            ("training_products_hash", "SHA-256 of the product ids"),
            ("checkpoint_hash", "SHA-256 of the weights and the tokenizer"),
        )
        if key in tags
    )
    figures = "".join(_row(words, f"validation_{key}", tags) for key, words in _SHOWN.items())
    train = params.train
    return f"""# {name}, step {tags["step"]}

A language model that buys: it bargains over one product within a budget of its own, in at most {params.game.max_turns}
turns, by the rules of Dealwright. Every message of it has a Thought, which the seller must never see, a Talk and an
Action.

## Use

```python
buyer = mlflow.pyfunc.load_model("models:/{name}@champion")
buyer.predict([{{"title": "Desk lamp", "list_price": 100.0, "budget": 80.0, "messages": []}}])
```

`messages` holds the dialogue so far: the buyer's own messages, the first among them, as {{"role": "assistant",
"content": ...}}, the seller's as {{"role": "user", "content": ...}}. Served like this the buyer is held to its budget:
an answer that breaks the rules or goes above the budget is replaced by a refusal. {_guarded(tags)}
Loaded by other means it is not held to anything.

## Training

| | |
|---|---|
| base | `{params.warmstart.base}`, fine-tuned on demonstrations for {params.warmstart.steps} steps (step 0) |
| method | GRPO on the reward (budget - price) / abs(budget - cost), cut to [-1, 1] |
| steps | {tags["step"]} of {train.steps}, of {train.products} products with {train.group_size} games each |
| counterpart | {_counterpart(train)}, behind the regulator |
| products | {tags["training_products"]}, listed in `training_products.json` |
{revisions}
## Validation games

| | value | 95 % interval |
|---|---:|---:|
{figures}
They were played against the seller `{params.select.seller}` and chose the checkpoint, so they are no result: the best
of many looks better than it is. Results on test products stand in the report.

## Limits

It knows this one game, the six kinds of argument of its demonstrations and this seller, and prices in one currency.
What it earns against people or other models has not been measured.
"""


def _counterpart(train: Train) -> str:
    if train.engine is None:
        return f"the scripted seller `{train.seller}`"
    return f"the language model `{train.engine.weights}`"


def _guarded(tags: Mapping[str, str]) -> str:
    rate = tags.get("validation_guard_rate")
    return f"In its validation games that would have been {float(rate):.2%} of its messages." if rate else ""


def _row(words: str, key: str, tags: Mapping[str, str]) -> str:
    if key not in tags:
        return ""
    low, high = tags.get(f"{key}_low"), tags.get(f"{key}_high")
    interval = f"[{float(low):.3f}, {float(high):.3f}]" if low and high else ""
    return f"| {words} | {float(tags[key]):.3f} | {interval} |\n"
