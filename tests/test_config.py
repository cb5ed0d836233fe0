"""Settings: where they come from, what they refuse, and what their digest covers."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from scrout.base import ConfigError
from scrout.cli.init import TEMPLATE
from scrout.config import loading
from scrout.config.folders import cache_folder, user_file
from scrout.config.loading import discover, distrust, load, trust
from scrout.config.settings import Sampling, SearcherSettings, Settings
from scrout.fix.kinds.command import CommandFixer

AGENT = """
[[fixers]]
name = "cheap"
kind = "agent"
model = "m"
base_url = "http://127.0.0.1:1/v1"
key_env = "CHEAP_KEY"
price = { input = 0.5, output = 1.25 }
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "scrout.toml"
    path.write_text(text)
    return path


def test_defaults_need_no_file() -> None:
    settings = load(None)
    assert [fixer.name for fixer in settings.fixers] == ["repair"]
    assert settings.route.theta == 0.30


def test_file_then_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, "[route]\ntheta = 0.5\n[gate]\nruns = 3\n")
    settings = load(path, ["route.theta=0.7", "scout.reproduce=false", "environment.venv=my env"])
    assert (settings.route.theta, settings.gate.runs) == (0.7, 3)
    assert settings.scout.reproduce is False
    assert settings.environment.venv == "my env"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[route]\nthetta = 0.5\n", "route.thetta"),
        ("[rout]\n", "rout"),
        ("[gate]\nruns = 1\n", "gate.runs"),
        ('[sandbox]\ntier = "none"\n', "sandbox.tier"),
        ('[[fixers]]\nname = "x"\nkind = "magic"\n', "magic"),
        ('[[fixers]]\nname = "x"\nkind = "agent"\n', "needs `model`"),
        ('[[fixers]]\nname = "x y"\nkind = "repair"\n', "name"),
        ('[[fixers]]\nname="x"\nkind="repair"\n[[fixers]]\nname="x"\nkind="repair"\n', "two fixers"),
        ("fixers = []\n", "empty"),
        ('[route]\nanchor = "nobody"\n', "nobody"),
        ("route = \n", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text))
    assert named in str(caught.value)


@pytest.mark.parametrize("override", ["theta", "=1", "route.theta.x=1", "route.nope=1", "fixers.x=1"])
def test_bad_overrides_are_refused(override: str) -> None:
    with pytest.raises(ConfigError):
        load(None, ["route.theta=0.5", override])


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="scrout init"):
        load(tmp_path / "absent.toml")


def test_the_digest_follows_what_shapes_a_run(tmp_path: Path) -> None:
    plain = load(None).digest()
    assert load(None).digest() == plain
    assert load(None, ["route.theta=0.31"]).digest() != plain
    assert load(None, [f"ledger.path={tmp_path}/other.db"]).digest() == plain


@pytest.mark.parametrize(
    "text",
    [
        AGENT,
        AGENT.replace('key_env = "CHEAP_KEY"', ""),
        "[[fixers]]\nname='repair'\nkind='repair'",
        "[sandbox]\ntier='unsafe'",
        "[sandbox]\ntier='auto'",
        "[sandbox]\nimage='x'",
        "[sandbox]\nprocesses=100000",
        "[sandbox]\nrepo_paths=100000000",
        "[ledger]\npath='/x'",
        "[ledger]\nurl='postgresql://127.0.0.1/x'",
        "[retention]\ntext=false",
        "[api]\nkeep_days=1",
        "[telemetry]\nenabled=true",
        "[route]\nresumes='/x'",
        "[route]\ndial=1",
        "[route.embedder]\nkind='hashed'",
        "[fix]\nprices='/x'",
        "[repair]\nmax_seconds=1e9",
        '[scout]\nsearcher = "model"\n[scout.model]\nmodel="m"\nbase_url="u"\nprice={input=0,output=0}',
        "[scout.model]\nbase_url='http://127.0.0.1/v1'",
        "[scout.model]\nprompts='/x'",
        "[environment]\nvenv='/x'",
        "[environment]\nvenv='envs/dev'",
        "[environment]\nsetup='make install'",
        "[environment]\nbuild=true",
    ],
)
def test_a_file_that_nobody_trusts_may_only_tighten(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=r"scrout trust --repo .*--config"):
        discover(tmp_path)
    assert trust(path)
    assert discover(tmp_path) == load(path)
    with path.open("a") as file:
        file.write("# changed\n")
    with pytest.raises(ConfigError, match="scrout trust"):
        discover(tmp_path)


def test_trust_is_in_one_path(tmp_path: Path) -> None:
    for folder in ("mine", "theirs"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, AGENT)
    trust(tmp_path / "mine" / "scrout.toml")
    assert discover(tmp_path / "mine").fixers != Settings().fixers
    with pytest.raises(ConfigError, match="scrout trust"):
        discover(tmp_path / "theirs")
    assert distrust(tmp_path / "mine" / "scrout.toml")
    assert not distrust(tmp_path / "mine" / "scrout.toml")
    with pytest.raises(ConfigError, match="scrout trust"):
        discover(tmp_path / "mine")


@pytest.mark.parametrize("at_link", [True, False])
def test_a_file_that_is_a_link_is_not_read(tmp_path: Path, at_link: bool) -> None:
    """What it points to may be another file of the user's, whose content an error would show."""
    elsewhere = write(tmp_path, AGENT)
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "scrout.toml").symlink_to(elsewhere if at_link else "nowhere")
    for read in (discover, lambda repo: trust(repo / "scrout.toml")):
        with pytest.raises(ConfigError, match="no regular file"):
            read(repo)


def test_the_users_own_word_counts_beside_a_file_that_nobody_trusts(tmp_path: Path) -> None:
    write(tmp_path, "[repair]\nmax_seconds = 5\n[sandbox]\nprocesses = 64\n[scout]\nmax_files = 3\n")
    settings = discover(tmp_path, ["route.embedder.kind=hashed"])
    assert settings.repair.max_seconds == 5 and settings.sandbox.processes == 64 and settings.scout.max_files == 3
    assert settings.route.embedder.kind == "hashed"


USERS = """
[sandbox]
tier = "container"
image = "mine"
timeout_s = 5
memory_mb = 128
repo_paths = 1000000
[scout]
max_files = 9
reproduce = false
subtree = "src"
[gate]
runs = 4
[retention]
text = false
"""


@pytest.fixture
def users() -> Settings:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(USERS)
    return load(user_file())


def test_what_the_user_set_stays_beside_a_repositorys_file(tmp_path: Path, users: Settings) -> None:
    """Also beside one that sets nothing."""
    write(tmp_path, "")
    assert discover(tmp_path) == users
    path = write(tmp_path, "[sandbox]\ntimeout_s = 3\nrepo_paths = 500000\n[scout]\nmax_files = 6\nsubtree='src/a'\n")
    found = discover(tmp_path)
    assert found.sandbox.tier == "container" and found.sandbox.memory_mb == 128 and not found.retention.text
    assert (found.sandbox.timeout_s, found.sandbox.repo_paths, found.scout.max_files) == (3, 500_000, 6)
    path.write_text('[sandbox]\ntier = "auto"\n')
    trust(path)
    assert discover(tmp_path).sandbox == users.sandbox.model_copy(update={"tier": "auto"})


@pytest.mark.parametrize(
    "text",
    [
        "[sandbox]\ntimeout_s = 60",
        "[sandbox]\nmemory_mb = 129",
        "[scout]\nmax_files = 10",
        "[scout]\nreproduce = true",
        "[scout]\nsubtree = ''",
        "[scout]\nsubtree = 'srcs'",
        "[scout]\nsubtree = 'src/..'",
        "[gate]\nruns = 3",
    ],
)
def test_a_file_that_nobody_trusts_loosens_nothing_that_the_user_set(
    tmp_path: Path, users: Settings, text: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match="scrout trust"):
        discover(tmp_path)
    assert path.exists()


@pytest.mark.parametrize(
    ("setting", "file"),
    [
        ("[fix]\nmodel_list = 'models.yaml'", "models.yaml"),
        ("[fix]\nprices = './prices.toml'", "prices.toml"),
        ("[fix]\nprices = '{repo}/../repo/prices.toml'", "prices.toml"),
        ("[scout.model]\nprompts = 'prompts'", "prompts/system.md"),
        ("[scout.model]\nprompts = 'prompts'", "prompts/deep/new.md"),
        ("[route]\nresumes = 'resumes'", "resumes/a.json"),
        ("[[fixers]]\nname = 'a'\nkind = 'single'\nmodel_file = 'm.gguf'", "m.gguf"),
    ],
)
def test_trust_covers_the_files_that_are_named(tmp_path: Path, setting: str, file: str) -> None:
    """A pull can change them, and an endpoint in them gets the user's key."""
    repo = tmp_path / "repo"
    (repo / file).parent.mkdir(parents=True)
    (repo / file).write_text("one")
    path = write(repo, setting.format(repo=repo))
    trust(path)
    assert discover(repo)
    for change in (lambda: (repo / file).write_text("two"), (repo / file).unlink):
        change()
        with pytest.raises(ConfigError, match="scrout trust"):
            discover(repo)
    (repo / file).write_text("one")
    assert discover(repo)


@pytest.mark.parametrize(
    "setting",
    [
        "[fix]\nprices='link'",
        "[route]\nresumes='folder'",
        "[ledger]\npath='x.db'",
        "[[fixers]]\nname='a'\nkind='command'\nmodel='m'\nbase_url='http://x/v1'\ncommand=['./link']",
    ],
)
def test_what_cannot_be_vouched_for_is_not_trusted(tmp_path: Path, setting: str) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to("/etc")
    path = write(tmp_path, setting)
    with pytest.raises(ConfigError, match="cannot be trusted"):
        trust(path)


@pytest.mark.parametrize(
    "setting",
    [
        "[fix]\nprices = 'sub/link/../real'",
        "[scout.model]\nprompts = 'sub/link/../real'",
        "[[fixers]]\nname='a'\nkind='command'\nmodel='m'\nbase_url='http://x/v1'\ncommand=['./sub/link/../real']",
        "[[fixers]]\nname='a'\nkind='single'\nmodel_file='sub/link/../real'",
    ],
)
def test_a_step_up_after_a_link_is_not_trusted(tmp_path: Path, setting: str) -> None:
    """It leads to `deep/real`, which a pull can change, and reads as `sub/real`."""
    (tmp_path / "deep" / "folder").mkdir(parents=True)
    (tmp_path / "deep" / "real").write_text("one")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link").symlink_to("../deep/folder")
    with pytest.raises(ConfigError, match="cannot be trusted"):
        trust(write(tmp_path, setting))


def test_what_a_file_names_is_read_once_and_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every start of scrout reads it, also of a file that nobody trusts: a word for each byte would take a day."""
    monkeypatch.setattr(loading, "_MOST_NAMED_BYTES", 10)
    fixer = "[[fixers]]\nname='a'\nkind='command'\nmodel='m'\nbase_url='http://x/v1'\ncommand="
    for name in ("x", "y"):
        (tmp_path / name).write_text("123456")
    trust(write(tmp_path, f"{fixer}{['x'] * 100}"))
    with pytest.raises(ConfigError, match="too large"):
        trust(write(tmp_path, f"{fixer}{['x', 'y']}"))


def test_a_word_that_is_there_often_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    is_no_folder = loading._is_no_folder
    monkeypatch.setattr(loading, "_is_no_folder", lambda path: looked.append(path) or is_no_folder(path))
    (tmp_path / "x").write_text("1")
    fixer = "[[fixers]]\nname='a'\nkind='command'\nmodel='m'\nbase_url='http://x/v1'\ncommand="
    trust(write(tmp_path, f"{fixer}{['y', *['x'] * 100]}"))
    assert len(looked) == 2


@pytest.mark.parametrize("name", ["a\\u0000b", "~nobody-of-this-name/x", "x" * 5000, "y/" * 3000])
@pytest.mark.parametrize("key", ["fix.prices", "fixers.model_file", "fixers.command"])
def test_a_name_that_no_file_has_is_no_bug(tmp_path: Path, key: str, name: str) -> None:
    fixer = "[[fixers]]\nname='a'\nmodel='m'\n"
    start = {
        "fix.prices": '[fix]\nprices = "',
        "fixers.model_file": f'{fixer}kind="single"\nmodel_file = "',
        "fixers.command": f"{fixer}kind='command'\nbase_url='http://x/v1'\ncommand = [\"",
    }
    path = write(tmp_path, f'{start[key]}{name}"{"]" * (key == "fixers.command")}\n')
    with pytest.raises(ConfigError):
        discover(tmp_path)
    assert path.exists()


def test_a_file_of_many_mistakes_is_told_of_in_a_few_lines(tmp_path: Path) -> None:
    """It may come with a repository, and each mistake in a fixer takes milliseconds to tell."""
    with pytest.raises(ConfigError) as told:
        load(write(tmp_path, "[sandbox]\n" + "\n".join(f"k{number} = 1" for number in range(1000))))
    assert str(told.value).count("unknown key") == 20


@pytest.mark.parametrize("entry", ['{name="", kind="no"}', '{name="a%d", kind="repair"}'])
def test_a_pool_that_is_too_long_is_not_looked_at(tmp_path: Path, entry: str) -> None:
    path = write(tmp_path, f"fixers = [{', '.join(entry.replace('%d', str(number)) for number in range(600))}]")
    with pytest.raises(ConfigError, match="600 fixers") as told:
        load(path)
    assert len(str(told.value)) < 300


def test_a_program_may_lie_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a folder named ~ in a repository would have it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    own = write(tmp_path, "[[fixers]]\nname = 'a'\nkind = 'command'\nmodel_file = 'm.gguf'\ncommand = ['~/agent']\n")
    assert load(own).model_dump()["fixers"][0]["command"] == (str(tmp_path / "home" / "agent"),)


@pytest.mark.parametrize("command", ['"./agent"', f'"python3", "agent", "--dir", ".", "{"x" * 9000}"', '"agent"'])
def test_trust_covers_the_program_that_a_fixer_starts(tmp_path: Path, command: str) -> None:
    """A pull can change it, and it spends the user's money."""
    own = tmp_path / "scrout.toml"
    fixer = 'name = "a"\nkind = "command"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\n'
    own.write_text(f"[[fixers]]\n{fixer}command = [{command}]\n")
    (tmp_path / "agent").write_text("#!/bin/sh\n")
    trust(own)
    assert discover(tmp_path).fixers[0].name == "a"
    (tmp_path / "agent").write_text("#!/bin/sh\nsomething else\n")
    with pytest.raises(ConfigError, match="scrout trust"):
        discover(tmp_path)
    (tmp_path / "agent").unlink()
    with pytest.raises(ConfigError, match="scrout trust"):
        discover(tmp_path)


def test_a_program_lies_beside_the_file_that_names_it_also_with_a_model(tmp_path: Path) -> None:
    """Else the current folder would say which one, and that is often a repository."""
    own = write(tmp_path, "[[fixers]]\nname = 'a'\nkind = 'command'\nmodel_file = 'm.gguf'\ncommand = ['./agent']\n")
    (fixer,) = load(own).model_dump()["fixers"]
    assert fixer["command"] == (str(tmp_path / "agent"),) and fixer["model_file"] == str(tmp_path / "m.gguf")


def test_trust_covers_the_folders_that_a_fixer_sees(tmp_path: Path) -> None:
    """A pull can put a link in a folder's place, and what that leads to would be mounted."""
    own, tools = tmp_path / "scrout.toml", tmp_path / "tools"
    fixer = 'name = "a"\nkind = "command"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\ncommand = ["agent"]\n'
    own.write_text(f'[[fixers]]\n{fixer}mounts = ["{tools}"]\n')
    tools.mkdir()
    trust(own)
    assert discover(tmp_path).fixers[0].mounts == (str(tools),)
    tools.rmdir()
    tools.symlink_to("/etc")
    with pytest.raises(ConfigError, match="cannot be trusted"):
        discover(tmp_path)


def test_a_home_that_is_another_folder_everywhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a repository it would be one of the repository's, with settings that count as the user's own."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", ".")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".config" / "scrout").mkdir(parents=True)
    (tmp_path / ".config" / "scrout" / "scrout.toml").write_text("[sandbox]\ntier = 'unsafe'\n")
    with pytest.raises(ConfigError, match="HOME"):
        discover(tmp_path)


def test_a_relative_program_lies_beside_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust vouches for that one, and another of the same name below the current folder would be anybody's."""
    path, elsewhere = tmp_path / "mine" / "scrout.toml", tmp_path / "elsewhere"
    path.parent.mkdir()
    elsewhere.mkdir()
    entry = '[[fixers]]\nname = "t"\nkind = "command"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    path.write_text(entry + 'command = ["tools/agent", "./{prompt_file}"]\n')
    monkeypatch.chdir(elsewhere)
    (fixer,) = load(path).fixers
    assert fixer.model_dump()["command"] == (f"{path.parent}/tools/agent", "./{prompt_file}")
    path.write_text(entry + 'command = ["agent", "tools/agent"]\n')
    (fixer,) = load(path).fixers
    assert fixer.model_dump()["command"] == ("agent", "tools/agent")


def test_files_are_named_relative_to_the_file_that_names_them(tmp_path: Path, users: Settings) -> None:
    user_file().write_text("[fix]\nprices = 'mine.toml'\n[route]\nresumes = 'kept'\n")
    assert discover(tmp_path).route.resumes == str(user_file().parent / "kept")
    trust(write(tmp_path, "[fix]\nmodel_list = 'models.yaml'\n"))
    found = discover(tmp_path)
    assert found.fix.prices == str(user_file().parent / "mine.toml")
    assert found.fix.model_list == str(tmp_path / "models.yaml")


def test_an_unknown_fixer_lists_the_pool() -> None:
    with pytest.raises(ConfigError, match="repair"):
        Settings().fixer("nobody")


def test_a_pool_of_one_has_no_anchor_left_to_look_for(tmp_path: Path) -> None:
    settings = load(write(tmp_path, AGENT + '[[fixers]]\nname="repair"\nkind="repair"\n[route]\nanchor = "cheap"\n'))
    alone = settings.only("repair")
    assert [fixer.name for fixer in alone.fixers] == ["repair"]
    assert alone.route.anchor == ""
    with pytest.raises(ConfigError):
        settings.only("nobody")


@pytest.mark.parametrize(
    ("override", "known"),
    [
        ("route.foo=1", "theta"),
        ("foo=1", "sandbox"),
        ("gate.x.y=1", "runs"),
        ("scout.model.foo=1", "episode_s"),
        ("scout.model.sampling.foo=1", "top_k"),
    ],
)
def test_an_unknown_key_comes_with_the_known_ones(override: str, known: str) -> None:
    with pytest.raises(ConfigError, match=known) as caught:
        load(None, [override])
    assert str(caught.value).startswith("-c")


def test_the_paper_preset_fills_what_is_not_given() -> None:
    model = load(None, ["scout.model.preset=paper", "scout.model.turns=9", "scout.model.sampling.top_k=3"]).scout.model
    assert (model.dialect, model.tools, model.shortlist) == ("xml", ("bash", "str_replace_editor"), False)
    assert (model.sampling.temperature, model.sampling.top_k, model.turns) == (0.9, 3, 9)
    own = load(None, ["scout.model.preset=paper", "scout.model.dialect=json"]).scout.model
    assert own.dialect == "json" and own.cache_salt and own.canary
    assert not load(None, ["scout.model.preset=paper", "scout.model.canary=false"]).scout.model.canary


def test_sampling_that_is_given_as_a_record_keeps_what_the_preset_pins() -> None:
    pinned = SearcherSettings(preset="paper").sampling
    own = SearcherSettings(preset="paper", sampling=Sampling(seed=3, top_p=None)).sampling
    assert own == pinned.model_copy(update={"seed": 3, "top_p": None}) and own.temperature == 0.9


PROTOCOL = {
    "turns": 40,
    "dialect": "xml",
    "tools": ("bash", "str_replace_editor"),
    "shortlist": False,
    "max_tokens": 2048,
    "cache_salt": True,
    "observation_chars": 8000,
    "context_tokens": 32768,
    "margin_tokens": 256,
    "command_s": 60,
    "max_command_s": 120,
    "episode_s": 1200,
    "canary": True,
    "state_layer": -4,
    "sampling": Sampling(
        temperature=0.9,
        top_p=1.0,
        top_k=-1,
        repetition_penalty=1.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        stop=("<|im_end|>",),
        seed=None,
    ),
}
"""As published (arXiv 2608.04804)."""


@pytest.mark.parametrize("key", PROTOCOL)
def test_the_paper_preset_is_the_published_protocol(key: str) -> None:
    assert getattr(SearcherSettings(preset="paper"), key) == PROTOCOL[key]


def test_the_paper_preset_fits_requests_into_the_published_room() -> None:
    paper = SearcherSettings(preset="paper")
    room = paper.context_tokens - paper.max_tokens - paper.margin_tokens
    assert (room, int(room * paper.refit)) == (30464, 24371)


def test_a_model_searcher_wants_its_model_its_endpoint_and_a_price() -> None:
    given = ["scout.searcher=model"]
    for key, value in (("model", "m"), ("base_url", "u"), ("price", "{input=0, output=0}")):
        with pytest.raises(ConfigError, match=f"scout.model.{key}"):
            load(None, given)
        given.append(f"scout.model.{key}={value}")
    assert load(None, given).scout.model.key() is None
    with pytest.raises(ConfigError, match="max_tokens 2000 and margin_tokens 256 leave no room"):
        load(None, [*given, "scout.model.max_tokens=2000", "scout.model.context_tokens=2048"])


def test_prices_are_exact(tmp_path: Path) -> None:
    price = load(write(tmp_path, AGENT)).fixer("cheap").price
    assert price is not None
    assert (price.input, price.output) == (Decimal("0.5"), Decimal("1.25"))


def test_relative_xdg_folders_are_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path.home() / ".cache" / "scrout"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "scrout"


def test_the_template_states_the_defaults(tmp_path: Path) -> None:
    """Every commented key with its comment removed gives the same settings as no file at all."""
    assert load(write(tmp_path, TEMPLATE)) == Settings()
    defaults, _, example = TEMPLATE.partition("# A model behind")
    told = (re.sub(r"^# (?=\w+ = )", "", line) for line in defaults.splitlines()[2:])
    assert load(write(tmp_path, "\n".join(told))) == Settings()
    agent = "\n".join(line.removeprefix("# ") for line in example.splitlines() if re.match(r"# (\w+ = |\[\[)", line))
    assert load(write(tmp_path, agent)).fixer("my-model").cap_usd == Decimal("2.00")


def test_every_setting_is_in_the_template() -> None:
    def look(section: str, table: type[BaseModel]) -> None:
        _, header, body = TEMPLATE.partition(f"\n[{section}]\n")
        assert header, section
        body = body.partition("\n\n[")[0]
        for key, field in table.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                look(f"{section}.{key}", field.annotation)
            elif field.default is not None:  # TOML has no word for None
                assert f"\n# {key} = " in f"\n{body}", f"{section}.{key}"

    for section, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            look(section, field.annotation)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("repair", ("repair", "", "")),
        ("mini/claude-opus-4-6", ("mini", "claude-opus-4-6", "")),
        ("mini/claude-opus-4-6@high", ("mini", "claude-opus-4-6", "high")),
        ("agent/anthropic/claude-opus-4.6@x-high", ("agent", "anthropic/claude-opus-4.6", "x-high")),
        ("agent@low", ("agent", "", "low")),
    ],
)
def test_a_key_is_written_as_it_is_read(text: str, parts: tuple[str, str, str]) -> None:
    from scrout.config.settings import FixerKey

    key = FixerKey.parse(text)
    assert (key.agent, key.model, key.effort) == parts and str(key) == text
    assert {key: "by key"}[FixerKey(agent=parts[0], model=parts[1], effort=parts[2])] == "by key"


@pytest.mark.parametrize(
    "text", ["", "/m", "@high", "Mini/m", "../m", "mini/m@High", "mini/m@a@b", "mini/a b", "a\n/m"]
)
def test_what_is_no_key_is_named(text: str) -> None:
    from scrout.config.settings import FixerKey

    with pytest.raises(ConfigError, match=r"is not a fixer\. Write agent/model"):
        FixerKey.parse(text)


def test_a_fixers_key_is_of_its_kind_model_and_effort(tmp_path: Path) -> None:
    fixer = load(write(tmp_path, AGENT + 'effort = "high"\n')).fixer("cheap")
    assert str(fixer.key) == "agent/m@high" and str(load(None).fixer("repair").key) == "repair"
    for model in ("claude@20260115", "claude 20260115"):
        assert str(fixer.model_copy(update={"model": model}).key) == "agent/claude-20260115@high"


def test_a_resume_to_go_by_must_be_a_key(tmp_path: Path) -> None:
    assert load(write(tmp_path, AGENT + 'resume = "mini/m@low"\n')).fixer("cheap").resume == "mini/m@low"
    with pytest.raises(ConfigError, match="'My Model' is not a fixer"):
        load(write(tmp_path, AGENT + 'resume = "My Model"\n'))
    with pytest.raises(ConfigError, match="effort"):
        load(write(tmp_path, AGENT + 'effort = "Very High"\n'))


def test_an_agent_has_its_makers_endpoint_and_key_unless_another_is_named() -> None:
    plain = CommandFixer.model_validate({"name": "c", "kind": "command", "preset": "claude-code", "model": "m"})
    assert (plain.base_url, plain.key_env) == ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")
    other = {"name": "c", "kind": "command", "preset": "codex", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    assert CommandFixer.model_validate(other).key_env == "", "the maker's key goes to nobody else"
    with pytest.raises(ValidationError, match="needs `base_url`"):
        CommandFixer.model_validate({"name": "c", "kind": "command", "preset": "aider", "model": "m"})
