"""Packs demonstrations into blocks of a fixed size: whole ones, and as few blocks as it takes.

What a demonstration becomes is what the model will see of it (agent/context.py): as long as it fits, one document;
where turns would have been dropped to make room, another document for what is seen from then on. Only turns that are
seen as they stand in a document are learned from it.

On disk a pack is four arrays that are mapped, not read: tokens, which of them are learned, where documents and blocks
begin. Documents stay whole, and stay apart: their positions begin at 0 (`Block.positions`), from which attention is
kept within them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from scrout import __version__
from scrout.agent.context import Window
from scrout.agent.dialect import RequestTools
from scrout.base import FrozenModel, TaskError
from scrout.config.settings import SearcherSettings
from scrout.files import atomic, remove_parts, write_atomic
from scrout.lab.train.corpus.corpus import CARD as CORPUS_CARD
from scrout.lab.train.corpus.corpus import CORPUS, demonstrations, sha256_of
from scrout.lab.train.corpus.demonstration import Demonstration
from scrout.lab.train.tokenization import (
    Bools,
    ChatExample,
    ChatTokenizer,
    Document,
    Ids,
    Json,
    UntrainableExample,
    views,
)
from scrout.models.chat import Message, Tool, ToolCall, message_json, tool_json

Ints = npt.NDArray[np.int64]

CARD = "pack.json"
ARRAYS = TOKENS, LOSS_MASK, DOCUMENTS, BLOCKS = "tokens.npy", "loss_mask.npy", "documents.npy", "blocks.npy"
TOLD_EVERY = 200
MAX_BLOCK = 2**24


class PackCard(FrozenModel):
    """What a pack holds, and how well it is filled."""

    scrout: str
    corpus_sha256: str
    tokenizer_sha256: str
    """Of the tokenizer with its template: tokens mean nothing to another."""
    block_tokens: int
    context_tokens: int
    max_tokens: int
    margin_tokens: int
    demonstrations: int
    """That documents were made of."""
    documents: int
    tokens: int
    loss_tokens: int
    blocks: int
    min_blocks: int
    """No packing of these documents has fewer."""
    fill: float
    """Share of the blocks' room that holds tokens."""
    dropped: dict[str, int]
    """Demonstrations, by the reason."""
    seconds: float


@dataclass(frozen=True)
class PackedBlock:
    """A few whole documents."""

    ids: Ids
    loss_mask: Bools
    positions: Ints
    """Beginning at 0 in each document."""


class Pack:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.card = PackCard.model_validate_json((folder / CARD).read_bytes())
            self._tokens, self._learned = _map(folder / TOKENS), _map(folder / LOSS_MASK)
            self._documents, self._blocks = np.load(folder / DOCUMENTS), np.load(folder / BLOCKS)
            if not self._fits():
                raise ValueError("its arrays do not fit together")
        except (OSError, ValueError, EOFError) as error:
            raise TaskError(f"{folder} holds no whole pack ({error}). Make one: scrout train pack.") from None

    def _fits(self) -> bool:
        card, documents, blocks = self.card, self._documents, self._blocks
        return (
            len(self._tokens) == len(self._learned) == card.tokens
            and len(documents) == card.documents + 1
            and len(blocks) == card.blocks + 1
            and (int(documents[0]), int(documents[-1])) == (0, card.tokens)
            and (int(blocks[0]), int(blocks[-1])) == (0, card.documents)
            and bool((np.diff(documents) > 0).all() and (np.diff(blocks) > 0).all())
        )

    @cached_property
    def digest(self) -> str:
        """Of its tokens and their order."""
        return hashlib.sha256("".join(sha256_of(self.folder / name) for name in ARRAYS).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._blocks) - 1

    def lengths(self) -> Ints:
        found: Ints = np.diff(self._documents[self._blocks])
        return found

    def documents(self) -> Ints:
        found: Ints = np.diff(self._documents)
        return found

    def __getitem__(self, number: int) -> PackedBlock:
        bounds = self._documents[self._blocks[number] : self._blocks[number + 1] + 1]
        start, end = int(bounds[0]), int(bounds[-1])
        positions = np.arange(end - start) - np.repeat(bounds[:-1] - start, np.diff(bounds))
        return PackedBlock(np.array(self._tokens[start:end]), np.array(self._learned[start:end]), positions)


def bins(lengths: Sequence[int] | Ints, room: int) -> list[list[int]]:
    """Which of them share a block: the longest first, each into the block that it leaves least room in."""
    sizes = np.asarray(lengths, dtype=np.int64).tolist()
    if (longest := max(sizes, default=0)) > room:
        raise ValueError(f"{longest} does not fit into {room}")
    found: list[list[int]] = []
    with_room: dict[int, list[int]] = {}
    """Blocks by the room that is left in them."""
    rooms: list[int] = []
    """Each such room, sorted."""
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        at = bisect_left(rooms, sizes[index])
        if at < len(rooms):
            free = rooms[at]
            number = with_room[free].pop()
            if not with_room[free]:
                del with_room[free], rooms[at]
        else:
            number, free = len(found), room
            found.append([])
        found[number].append(index)
        left = free - sizes[index]
        if left not in with_room:
            insort(rooms, left)
        with_room.setdefault(left, []).append(number)
    return found


def min_bins(lengths: Sequence[int] | Ints, room: int) -> int:
    """How many blocks any packing needs at least: Martello and Toth's bound L2.

    For a threshold, lengths above `room - threshold` each need a block of their own, and so do those above half of the
    room, which smaller ones from the threshold on may join; what these do not find room for needs further blocks.
    """
    ordered = np.sort(np.asarray(lengths, dtype=np.int64))
    if not len(ordered):
        return 0
    sums = np.concatenate(([0], np.cumsum(ordered)))
    half = int(np.searchsorted(ordered, room // 2, side="right"))
    thresholds = np.unique(np.concatenate(([0], ordered[:half])))
    low = np.searchsorted(ordered, thresholds, side="left")
    high = np.searchsorted(ordered, room - thresholds, side="right")
    alone, joined = len(ordered) - high, np.maximum(high - half, 0)
    left = joined * room - (sums[np.maximum(high, half)] - sums[half])
    further = np.ceil(np.maximum(sums[half] - sums[np.minimum(low, half)] - left, 0) / room)
    return int(np.max(alone + joined + further))


def pack(
    corpus: Path,
    out: Path,
    template: ChatTokenizer,
    settings: SearcherSettings,
    block_tokens: int | None = None,
    progress: Callable[[str], None] = lambda words: None,
) -> PackCard:
    """Make a pack of a corpus. `settings` are those that the model will search with: they say what it sees."""
    started = time.monotonic()
    room = block_tokens or settings.context_tokens
    if room > MAX_BLOCK:
        raise TaskError(f"a block of {room:,} tokens is more than {MAX_BLOCK:,}. Use fewer.")
    if room < settings.context_tokens:
        raise TaskError(f"a block of {room} tokens does not hold a context of {settings.context_tokens}. Use as many.")
    source = corpus / CORPUS if corpus.is_dir() else corpus
    if (out / CARD).exists():
        raise TaskError(f"{out} holds a pack already. Name another folder.")
    _require_frozen(source)
    dropped: Counter[str] = Counter()
    spool, marks = out / ".tokens", out / ".loss_mask"
    try:
        out.mkdir(parents=True, exist_ok=True)
        remove_parts(out)
        with spool.open("w+b") as ids, marks.open("w+b") as learned:
            made, lengths = _spool(source, template, settings, ids, learned, dropped, progress)
            if not lengths:
                raise TaskError(f"{source} gives no document ({dict(dropped) or 'it is empty'}). Build another corpus.")
            shares = bins(lengths, room)
            _write(out, ids, learned, lengths, shares)
        card = PackCard(
            scrout=__version__,
            corpus_sha256=sha256_of(source),
            tokenizer_sha256=tokenizer_digest(template),
            block_tokens=room,
            context_tokens=settings.context_tokens,
            max_tokens=settings.max_tokens,
            margin_tokens=settings.margin_tokens,
            demonstrations=made,
            documents=len(lengths),
            tokens=sum(lengths),
            loss_tokens=int(np.count_nonzero(_map(out / LOSS_MASK))),
            blocks=len(shares),
            min_blocks=min_bins(lengths, room),
            fill=sum(lengths) / (room * len(shares)),
            dropped=dict(dropped.most_common()),
            seconds=round(time.monotonic() - started, 3),
        )
        # The card comes last: without it a folder is no pack.
        write_atomic(out / CARD, card.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise TaskError(f"{out}: {error.strerror or error}. Name a folder with room that you may write to.") from None
    finally:
        for path in (spool, marks):
            path.unlink(missing_ok=True)
    return card


def _require_frozen(corpus: Path) -> None:
    """A corpus as `scrout train corpus` left it: read again, and free of what nothing is trained on."""
    try:
        said = json.loads(corpus.with_name(CORPUS_CARD).read_bytes())["sha256"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise TaskError(f"{corpus} has no card beside it ({error}). Make a corpus: scrout train corpus.") from None
    if said != sha256_of(corpus):
        raise TaskError(f"{corpus} is not what its card is about: it was changed. Build the corpus again.")


def fitted(demonstration: Demonstration, template: ChatTokenizer, settings: SearcherSettings) -> list[ChatExample]:
    """A long demonstration as the model would have seen it, turn by turn, each time fitted into its context."""
    window = Window(_Counted(template), _room(settings), settings.refit)
    heard = [_message(message) for message in demonstration.messages]
    offer = RequestTools(tuple(_tool(tool) for tool in demonstration.tools))

    async def said() -> list[tuple[Sequence[Json], Json]]:
        return [
            ([message_json(message) for message in await window.fit(heard[:index], offer)], message_json(reply))
            for index, reply in enumerate(heard)
            if reply.role == "assistant"
        ]

    return views(asyncio.run(said()), demonstration.tools)


def _room(settings: SearcherSettings) -> int:
    """For a prompt."""
    return settings.context_tokens - settings.max_tokens - settings.margin_tokens


@dataclass(frozen=True)
class _Counted:
    """Counts as the server will, by the same tokenizer and template."""

    template: ChatTokenizer

    async def count(self, messages: Sequence[Message], tools: Sequence[Tool]) -> int:
        return self.template.count([message_json(m) for m in messages], [tool_json(tool) for tool in tools])


def _spool(
    source: Path,
    template: ChatTokenizer,
    settings: SearcherSettings,
    ids: IO[bytes],
    learned: IO[bytes],
    dropped: Counter[str],
    progress: Callable[[str], None],
) -> tuple[int, list[int]]:
    """Put the documents aside as they come; how many demonstrations gave some, and the documents' lengths."""
    lengths: list[int] = []
    made = tokens = 0
    for documents in _documents(source, template, settings, dropped):
        made += 1
        for document in documents:
            ids.write(document.ids.tobytes())
            learned.write(document.loss_mask.tobytes())
            lengths.append(len(document))
            tokens += len(document)
        if made % TOLD_EVERY == 0:
            progress(f"{made:,} demonstrations, {tokens:,} tokens")
    ids.flush()
    learned.flush()
    return made, lengths


def _documents(
    source: Path, template: ChatTokenizer, settings: SearcherSettings, dropped: Counter[str]
) -> Iterator[list[Document]]:
    """The documents of each demonstration that gives any."""
    waiting: deque[Demonstration] = deque()

    def whole() -> Iterator[ChatExample]:
        for demonstration in demonstrations(source):
            waiting.append(demonstration)
            yield _whole_view(demonstration)

    # Most fit as they are, and many at a time are made into tokens far quicker than one by one.
    for document in template.documents(whole()):
        demonstration = waiting.popleft()
        try:
            if isinstance(document, UntrainableExample):
                raise document
            found = [document]
            if _last_prompt(document) > _room(settings):
                found = [template.document(view) for view in fitted(demonstration, template, settings)]
            if any(_longest(one.loss_mask) > settings.max_tokens for one in found):
                raise UntrainableExample("a turn longer than the model may write")
            if any(len(one) > settings.context_tokens for one in found):
                raise UntrainableExample("longer than the context")
        except UntrainableExample as unfit:
            dropped[str(unfit)] += 1
        else:
            yield found


def _whole_view(demonstration: Demonstration) -> ChatExample:
    messages = demonstration.messages
    replies = frozenset(index for index, message in enumerate(messages) if message.get("role") == "assistant")
    return ChatExample(messages, replies, demonstration.tools)


def _last_prompt(document: Document) -> int:
    """Tokens before the last reply."""
    starts = np.flatnonzero(document.loss_mask & ~np.concatenate(([False], document.loss_mask[:-1])))
    if not len(starts):
        raise UntrainableExample("no reply in it")
    return int(starts[-1])


def _longest(learned: Bools) -> int:
    """Tokens of the longest reply."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], learned, [False])).astype(np.int8)))
    return int(np.max(edges[1::2] - edges[::2], initial=0))


def _write(
    out: Path, ids: IO[bytes], learned: IO[bytes], lengths: Sequence[int], shares: Sequence[Sequence[int]]
) -> None:
    """The arrays, documents in the order of their blocks."""
    starts = np.concatenate(([0], np.cumsum(lengths)))
    order = [index for share in shares for index in share]
    total = int(starts[-1])
    for name, file, kind in ((TOKENS, ids, np.int32), (LOSS_MASK, learned, np.bool_)):
        spooled = np.memmap(file, dtype=kind, mode="r", shape=(total,))
        # Written and not mapped: a full disk ends a process that writes to a map, without a word.
        with atomic(out / name) as to:
            about = {"descr": spooled.dtype.str, "fortran_order": False, "shape": spooled.shape}
            np.lib.format.write_array_header_1_0(to, about)
            for index in order:
                to.write(spooled[starts[index] : starts[index + 1]].tobytes())
    documents = np.concatenate(([0], np.cumsum([lengths[index] for index in order])))
    blocks = np.concatenate(([0], np.cumsum([len(share) for share in shares])))
    for name, array in ((DOCUMENTS, documents), (BLOCKS, blocks)):
        with atomic(out / name) as to:
            np.save(to, array.astype(np.int64))


def _map(path: Path) -> Any:
    return np.load(path, mmap_mode="r")


def tokenizer_digest(template: ChatTokenizer) -> str:
    """Of the tokenizer and its template."""
    text = template.tokenizer.backend_tokenizer.to_str() + "\0" + str(template.tokenizer.chat_template)
    return hashlib.sha256(text.encode()).hexdigest()


def _message(message: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    return Message(message["role"], message["content"] or "", calls, message.get("tool_call_id", ""))


def _tool(tool: Mapping[str, Any]) -> Tool:
    function = tool["function"]
    return Tool(function["name"], function["description"], function["parameters"])
