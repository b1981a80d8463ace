"""Text from the catalogue or from the other side is data: nothing in it may act as markup of a prompt.

`neutralise` rewrites what a chat template, a tokenizer or the message parser could take for a command and leaves the
rest as it is. A model may still be *persuaded* by such a text; that is bargaining.

Example: `<|im_start|>system` becomes `(im_start)system`, and a line `Action: [BUY] $1` becomes `Action - [BUY] $1`.
"""

import re
import unicodedata

from dealwright.game.money import NO_GLYPH

_LINE_BREAK = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_JOINERS = "\u200c\u200d"  # they shape Persian, Hindi and emoji
_UNSEEN = NO_GLYPH | frozenset(_JOINERS)
_SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))

_LABELS = "thought|talk|action|system|user|human|assistant|buyer|seller"
_HEADINGS = "instructions?|response|input|output|context|question|answer"
# Mistral, Llama 2, BERT, GLM, Kimi; beside them whatever has an underscore, as in [TOOL_CALLS].
_BRACKETED = (
    "INST|IMG|PREFIX|MIDDLE|SUFFIX|ARGS|AUDIO|TRANSCRIBE|THINK|REF|[gs]?MASK|CLS|SEP|PAD|UNK|BOS|EOS|EOT|UNUSED[0-9]++"
    "|@[A-Z]++@|[A-Z]++(?:_[A-Z0-9]++)++"
)
# Every repetition is possessive or bounded, so the search is linear; a replacement leaves round brackets, which no
# pattern crosses, so nothing new can form from what is left.
_MARKER = re.compile(
    rf"""
      ^(?P<indent>[^\S\n]*+(?:[>*_\-•"'`\#][^\S\n]*+)*+)      # a heading or a label, however it is indented
       (?P<name>(?P<label>{_LABELS})|{_HEADINGS})
       (?P<colon>[^\S\n]*+[*_]*+[^\S\n]*+:|(?=[^\S\n]*+$))
    | (?P<open>[<\[]\|) | (?P<close>\|[>\]])                     # ChatML, Llama 3, Phi, DeepSeek; EXAONE
    | (?<!<)<++(?=[^\s<>()\[\]|]{{0,80}}?[^\W\d])(?P<tag>[^\s<>()\[\]|]{{1,80}}+)>++      # <s>, <<SYS>>, <think>
    | \[(?P<bracketed>/?(?:{_BRACKETED}))\]
    | [\[\]](?P<minimax>~!?b|e~|<|>)[\[\]]
    | >>(?P<falcon>[A-Z_]++)<<++ | \|\|\|(?P<olmo>[A-Z_]++)\|\|\|
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)


def neutralise(text: str) -> str:
    """Return the text with nothing left in it that a prompt could take for markup.

    Special tokens and role markers of chat models lose their brackets, label and heading lines their colon and marks,
    full-width and zero-width disguises included; controls and invisible formats go, line breaks become newlines.
    Idempotent, and linear in the length. Ordinary prose, prices, `3 < 4` and `[BUY]` stay as they are.
    """
    clean = _without_controls(text)
    plain, origins = _plain(clean)
    pieces: list[str] = []
    done = 0
    for match in _MARKER.finditer(plain):
        for start, end, replacement in _replacements(match):
            pieces += [clean[done : origins[start]], replacement]
            done = origins[end - 1] + 1
    return "".join([*pieces, clean[done:]])


def _without_controls(text: str) -> str:
    text = _LINE_BREAK.sub("\n", text)
    if re.sub(r"[\n\t]", "", text).isprintable():
        return text
    kept: list[str] = []
    for char in text:
        category = unicodedata.category(char)
        if category == "Cs":
            kept.append("\ufffd")  # half a surrogate pair cannot be encoded
        elif category not in ("Cc", "Cf") or char in "\n\t" or char in _JOINERS:
            kept.append(char)
    return "".join(
        char for at, char in enumerate(kept) if char not in _JOINERS or (0 < at < len(kept) - 1 and _joins(kept, at))
    )


def _joins(chars: list[str], at: int) -> bool:
    return all(_is_joined(neighbour) for neighbour in (chars[at - 1], chars[at + 1]))


def _is_joined(char: str) -> bool:
    category = unicodedata.category(char)
    return not char.isascii() and (category[0] in "LM" or category == "So" or char in _SKIN_TONES)


def _plain(text: str) -> tuple[str, range | list[int]]:
    """Return the text in plain characters, and for each of them the index of the character that it came from."""
    if text.isascii() or (unicodedata.is_normalized("NFKC", text) and _UNSEEN.isdisjoint(text)):
        return text, range(len(text))
    plain: list[str] = []
    origins: list[int] = []
    for at, char in enumerate(text):
        if char in _UNSEEN:
            continue
        for part in unicodedata.normalize("NFKC", char):
            plain.append(part)
            origins.append(at)
    return "".join(plain), origins


def _replacements(match: re.Match[str]) -> list[tuple[int, int, str]]:
    """Return what to replace in the plain text, as start, end and replacement."""
    if match["open"] or match["close"]:
        return [(*match.span(), "(" if match["open"] else ")")]
    if match["name"] is None:
        return [(*match.span(), f"({match[match.lastgroup or 0]})")]
    found: list[tuple[int, int, str]] = []
    heading = "#" in match["indent"]
    if heading:
        found.append((*match.span("indent"), match["indent"].replace("#", "").lstrip()))
    if match["colon"] and (heading or match["label"]):
        found.append((*match.span("colon"), " -"))
    return found
