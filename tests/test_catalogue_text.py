"""Product text is made plain, kept in its own script, and cut at a whole word."""

import polars as pl
import pytest

from dealwright.catalogue.text import capped, clean, normalised, one_line


def apply(expression: pl.Expr, text: str | None) -> str | None:
    """Evaluate an expression over the one text."""
    value: str | None = pl.DataFrame({"text": [text]}, schema={"text": pl.String}).select(expression).item()
    return value


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<p>Salt &amp; <b>pep</b>per&nbsp;mill</p>", "Salt & pepper mill"),
        ("one<br/>two<li>three", "one two three"),
        ("H<sub>2</sub>O", "H2O"),
        ('<img alt="a > b" src=x>ok', "ok"),
        ("a<script>if (x < y) {}</script>b<!-- no -->c", "a b c"),
        ("5 < 10 and 7 > 3, I <3 it", "5 < 10 and 7 > 3, I <3 it"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("&lt;b&gt;", "<b>"),
        ("&#39;&#x27;&quot;", "''\""),
        ("AT&T &nothing; &copy 5", "AT&T &nothing; &copy 5"),
        ("a\x00b\x07c\u200bd\ufeffe\u00adf\u202eg", "abcdefg"),
        ("a \t\r\n b\u2028c\u3000d\x1fe", "a b c d e"),
        ("wid\u200dget", "widget"),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("\u65e5\u672c\u8a9e \u0939\u093f\u0928\u094d\u0926\u0940 \u0420\u0443\u0441", "日本語 हिन्दी Рус"),  # noqa: RUF001
    ],
)
def test_text_is_cleaned(text: str, plain: str) -> None:
    assert apply(clean(pl.col("text")), text) == plain


@pytest.mark.parametrize("text", [None, "", "  ", "<br>", "\u200b", "&nbsp;"])
def test_text_with_nothing_to_read_is_null(text: str | None) -> None:
    assert apply(clean(pl.col("text")), text) is None


def test_entities_are_decoded_once_in_every_row_of_a_batch() -> None:
    texts = pl.DataFrame({"text": ["&amp;lt;", "&lt;", "&amp;", None, "plain"]})
    assert texts.select(clean(pl.col("text")))["text"].to_list() == ["&lt;", "<", "&", None, "plain"]


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("one two three four", "one two…"),
        ("abcdefghijklmnop", "abcdefghi…"),
        ("ten chars.", "ten chars."),
        ("日本語日本語日本語日本語", "日本語日本語日本語…"),
    ],
)
def test_long_text_is_cut_at_a_word_and_never_longer_than_asked(text: str, cut: str) -> None:
    assert apply(capped(pl.col("text"), 10), text) == cut
    assert len(cut) <= 10


def test_lines_of_features_are_joined_by_semicolons_unless_they_end_a_sentence() -> None:
    assert apply(one_line(pl.col("text")), "Steel blade\nFolds flat.\n\nTwo batteries\n") == (
        "Steel blade; Folds flat. Two batteries"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [("Blue  WIDGET!", "blue widget"), ("\uff22lue-Widget", "Blue Widget"), ("Café, small", "café small")],
)
def test_normalised_text_ignores_case_width_and_punctuation(one: str, other: str) -> None:
    assert apply(normalised(pl.col("text")), one) == apply(normalised(pl.col("text")), other)


@pytest.mark.parametrize(("one", "other"), [("C++ primer", "C primer"), ("1.5 l jug", "15 l jug"), ("!!!", "???")])
def test_normalised_text_keeps_different_products_apart(one: str, other: str) -> None:
    assert apply(normalised(pl.col("text")), one) != apply(normalised(pl.col("text")), other)


@pytest.mark.parametrize("text", ["Lamp ", " Lamp", "Lamp\t", "Lamp\u200b"])
def test_what_surrounds_plain_text_is_cut_off(text: str) -> None:
    assert apply(clean(pl.col("text")), text) == "Lamp"
