"""A repository of the forge, accessed with git but without a work tree: its files are never written to disk or run."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from scrout.git import GitDir, GitError, make_git_dir
from scrout.integrations.forge import ForgeError
from scrout.integrations.markdown import plain

_HERE = "refs/scrout/fetched"


@dataclass(frozen=True)
class Remote:
    """The forge's repository, and a local bare one for fetched and new objects."""

    url: str
    folder: Path
    header: str = field(default="", repr=False)
    """Authorization for the forge; empty: none."""
    committer: str = "scrout"

    def tip(self, ref: str) -> str:
        """The commit of a remote ref; empty: there is none."""
        found = self._git("ls-remote", self.url, ref).decode().splitlines()
        return next((line.split("\t")[0] for line in found if line.endswith(f"\t{ref}")), "")

    def fetch(self, commit: str) -> None:
        self._git("fetch", "-q", "--no-tags", "--depth", "1", self.url, f"+{commit}:{_HERE}")

    def push(self, commit: str, ref: str) -> None:
        """Move a remote ref forward. If another push moved it meanwhile, the forge refuses."""
        self._git("push", "-q", "--no-verify", self.url, f"{commit}:{ref}")

    def read(self, commit: str, path: str, most: int) -> bytes | None:
        """A file of a local commit; None: there is none."""
        entry = self._git("ls-tree", "-l", commit, "--", path).decode(errors="replace").split()
        if not entry:
            return None
        if entry[1] != "blob" or not entry[3].isdigit() or int(entry[3]) > most:
            raise ForgeError(f"{path} of {commit[:10]} is not a file of at most {most:,} bytes. Check the branch.")
        return self._git("cat-file", "blob", entry[2])

    def commit(self, tree: str, parents: tuple[str, ...], message: str, at: datetime) -> str:
        """The commit's id, the same for the same content and time."""
        who = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (
                ("NAME", self.committer),
                ("EMAIL", f"{self.committer}@users.noreply.invalid"),
                ("DATE", f"{int(at.timestamp())} +0000"),
            )
        }
        named = [word for parent in parents for word in ("-p", parent)]
        return self._git("commit-tree", tree, *named, stdin=message.encode(), env=who).decode().strip()

    def git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """A command without network access."""
        return self._git(*args, stdin=stdin, env=env)

    def _git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        settings = {"http.followRedirects": "false"}
        if self.header:
            # In the environment, because every process of the machine can read a command line.
            settings["http.extraHeader"] = self.header
        told = {"GIT_CONFIG_COUNT": str(len(settings))}
        for number, (key, value) in enumerate(settings.items()):
            told |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        try:
            own = GitDir(self.folder, protocols="https:http:file")
            return own.with_variables(**told, **(env or {}))(*args, stdin=stdin)
        except GitError as error:
            raise RemoteError(plain(str(error), 500)) from None


class RemoteError(ForgeError):
    """A git command that failed."""


@contextmanager
def open_remote(url: str, kind: str, token: str) -> Iterator[Remote]:
    """The remote, with a temporary folder that is removed when the block ends."""
    user = "oauth2" if kind == "gitlab" else "x-access-token"
    header = f"Authorization: Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}" if token else ""
    with TemporaryDirectory(prefix="scrout-forge-") as folder:
        make_git_dir(Path(folder), "ref: refs/heads/none", bare=True)
        yield Remote(url, Path(folder), header)
