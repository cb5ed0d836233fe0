"""What an issue's text names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.scout.recon.mentions import read_mentions


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        ('  File "/v/site-packages/app/a.py", line 12, in load\n', [("/v/site-packages/app/a.py", 12, "load")]),
        ("File ~/app/a.py:69, in Cart.total(self)\n", [("~/app/a.py", 69, "total")]),
        ("~/app/a.py in total(self, more)\n", [("~/app/a.py", 0, "total")]),
        ("app/a.py:7: in total\n", [("app/a.py", 7, "total")]),
        ("\tat org.shop.Cart.total(Cart.java:31)\n", [("Cart.java", 31, "total")]),
        ("    at Cart.total (/srv/shop/cart.js:4:12)\n", [("/srv/shop/cart.js", 4, "total")]),
        ("lib/shop/cart.rb:9:in `total'\n", [("lib/shop/cart.rb", 9, "total")]),
        ("lib/shop/cart.rb:9:in 'Shop::Cart#total'\n", [("lib/shop/cart.rb", 9, "total")]),
        ('  File "<stdin>", line 1, in <module>\n', []),
        ("see app/a.py in the repository\n", []),
    ],
)
def test_frames_say_which_function_they_are_in(text: str, frames: list[tuple[str, int, str]]) -> None:
    assert list(read_mentions(text).frames) == frames


def test_the_innermost_frame_comes_last_whichever_way_it_is_printed() -> None:
    python = 'Traceback:\n  File "a.py", line 1, in outer\n  File "b.py", line 2, in inner\n'
    java = "Exception\n\tat shop.B.inner(B.java:2)\n\tat shop.A.outer(A.java:1)\n"
    assert [name for _, _, name in read_mentions(python).frames] == ["outer", "inner"]
    assert [name for _, _, name in read_mentions(java).frames] == ["outer", "inner"]


@given(st.text(alphabet='File "line,in at.(): `/#\n~ab1', max_size=400))
def test_no_text_is_too_odd(text: str) -> None:
    assert all(path and name for path, _, name in read_mentions(text).frames)
