"""Words of languages: with stems, and of scripts that are written without blanks."""

from __future__ import annotations

import pytest

from .conftest import Make, declared, indexed, names

UNSPACED = {
    "zh": {"cats": "我的邻居喜欢猫。", "rivers": "长江是中国最长的河流。", "tea": "绿茶是一种健康的饮料"},
    "ja": {"cats": "吾輩は猫である。名前はまだ無い。", "towers": "東京タワーは東京都港区にある電波塔です。",
           "tea": "お茶を飲む"},
    "th": {"cats": "แมวกำลังนอนหลับอยู่บนโซฟา", "rivers": "แม่น้ำเจ้าพระยาไหลผ่านกรุงเทพมหานคร", "tea": "ฉันชอบดื่มชาเขียว"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("script", "query", "right"),
    [
        ("zh", "中国的河流", "rivers"),
        ("zh", "猫", "cats"),
        ("zh", "茶", "tea"),
        ("zh", "健康饮料", "tea"),
        ("zh", "长江 length", "rivers"),
        ("ja", "東京都の電波塔", "towers"),
        ("ja", "猫", "cats"),
        ("ja", "タワー", "towers"),
        ("ja", "お茶", "tea"),
        ("th", "แม่น้ำเจ้าพระยา", "rivers"),
        ("th", "แมวนอนหลับ", "cats"),
        ("th", "ชาเขียว", "tea"),
    ],
)
def test_a_part_of_a_sentence_without_blanks_is_found(make: Make, script: str, query: str, right: str) -> None:
    knowledge = indexed(make, declared("docs", UNSPACED[script], model=None))
    assert names(knowledge.search(query, mode="lexical"))[:1] == [right]


def test_scripts_are_found_beside_each_other(make: Make) -> None:
    texts = {f"{script}-{name}": text for script, of in UNSPACED.items() for name, text in of.items()}
    knowledge = indexed(make, declared("docs", texts | {"en": "The cat (猫) sleeps"}, model=None))
    assert set(names(knowledge.search("猫", mode="lexical"))) == {"zh-cats", "ja-cats", "en"}
    assert names(knowledge.search("sleeps แมว", mode="lexical"))[0] in ("en", "th-cats")


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("english", "The foxes were running quickly", "a fox that runs"),
        ("german", "Die Häuser der Städte", "das Haus einer Stadt"),
        ("french", "Les chevaux couraient", "cheval courir"),
        ("russian", "Кошки спали на диванах", "кошка на диване"),
        ("spanish", "Los gatos dormían", "gato durmiendo"),
    ],
)
def test_other_forms_of_a_word_are_found_in_its_language_only(make: Make, language: str, text: str, query: str) -> None:
    other = {"b": "Something else entirely"}
    knowledge = indexed(
        make,
        declared("stems", {"a": text, **other}, model=None, language=language),
        declared("simple", {"a": text, **other}, model=None),
    )
    assert names(knowledge.search(query, collections="stems", mode="lexical")) == ["a"]
    written = set(text.lower().split()) & set(query.lower().split())
    assert names(knowledge.search(query, collections="simple", mode="lexical")) == (["a"] if written else [])


def test_words_without_a_meaning_find_nothing_in_their_language(make: Make) -> None:
    knowledge = indexed(make, declared("docs", {"a": "The end of it"}, model=None, language="english"))
    assert knowledge.search("the of it", mode="lexical").matches == ()
    assert names(knowledge.search("END", mode="lexical")) == ["a"]
