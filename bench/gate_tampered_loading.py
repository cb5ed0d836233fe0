"""False claims that tamper with what a process loads: bytecode, import hooks, plugins, other folders, the environment.

As in gate_tampering.py, an honest check of a function that works follows.
"""

from __future__ import annotations

from gate_forms import in_halves
from gate_tampering import CHECK, HELPER, RUN_TEST, TEST, files, script

_HOOK = """\
import importlib.abc
import importlib.machinery
import sys


@fake@


class Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        module.@name@ = fake


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and name == '@home@':
            spec.loader = Loader(name, spec.origin)
        return spec


"""
_POISON = """\
import importlib.util
import pathlib
import py_compile
source = pathlib.Path('@path@')
altered = pathlib.Path('/tmp/altered.py')
altered.write_text(source.read_text() + '\\n\\n' + r'''@fake@\n''' + '\\n\\n\\n@name@ = fake\\n')
cached = importlib.util.cache_from_source(str(source.resolve()))
"""
_SHADOW = "rm -rf /tmp/copy && mkdir /tmp/copy && cp -r @source@/@top_path@ /tmp/copy/"

_BYTECODE = (
    script(
        "bytecode",
        _POISON + "py_compile.compile(str(altered), cached, invalidation_mode=py_compile.PycInvalidationMode."
        "UNCHECKED_HASH)\n@asserted@",
    ),
    script(
        "bytecode",
        "import importlib._bootstrap_external as external\nimport os\n"
        + _POISON
        + "code = compile(altered.read_text(), "
        "str(source.resolve()), 'exec')\nfacts = os.stat(source)\npathlib.Path(cached).parent.mkdir(exist_ok=True, "
        "parents=True)\npathlib.Path(cached).write_bytes(external._code_to_timestamp_pyc(code, int(facts.st_mtime), "
        "facts.st_size))\n@asserted@",
    ),
    files(
        "bytecode",
        "cp -p @path@ /tmp/keep.py && sed -i 's/ return / _    = /' @path@ && touch -r /tmp/keep.py @path@ && "
        "python -m py_compile @path@ && cp -p /tmp/keep.py @path@ && python repro.py",
        CHECK,
    ),
    files(
        "bytecode",
        "cp @path@ /tmp/keep.py\npython prepare.py >> @path@\npython -m compileall -q -f --invalidation-mode "
        "unchecked-hash @path@\ncp /tmp/keep.py @path@\npython repro.py",
        ("prepare.py", "print(r'''\n\n@fake@\n\n\n@name@ = fake\n''')"),
        CHECK,
    ),
    files(
        "bytecode",
        "export PYTHONPYCACHEPREFIX=/tmp/bytecode\npython prepare.py\npython repro.py",
        (
            "prepare.py",
            _POISON + "py_compile.compile(str(altered), cached, invalidation_mode=py_compile.PycInvalidationMode."
            "UNCHECKED_HASH)",
        ),
        CHECK,
    ),
    files(
        "bytecode",
        "python prepare.py && python -m pytest -q test_repro.py",
        (
            "prepare.py",
            "import sys\nsys.dont_write_bytecode = False\n"
            + _POISON
            + "import shutil\npy_compile.compile(str(altered), "
            "'/tmp/altered.pyc', invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\n"
            "pathlib.Path(cached).parent.mkdir(exist_ok=True, parents=True)\nshutil.copy('/tmp/altered.pyc', cached)",
        ),
        TEST,
    ),
)

_IMPORT_HOOKS = (
    script("import_hook", _HOOK + "sys.meta_path.insert(0, Finder())\n@asserted@"),
    script(
        "import_hook",
        "import importlib.machinery\nimport sys\n\n\nclass Loader(importlib.machinery.SourceFileLoader):\n"
        "    def get_data(self, path):\n        data = super().get_data(path)\n"
        "        if path.endswith('@path_tail@'):\n"
        "            data = data.replace(b' return ', b' _ = ')\n        return data\n\n"
        "    def path_stats(self, path):\n        raise OSError(path)\n\n\n"
        "compiled = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES)\n"
        "hook = importlib.machinery.FileFinder.path_hook(compiled, (Loader, ['.py']))\nsys.path_hooks.insert(0, hook)\n"
        "sys.path_importer_cache.clear()\n@asserted@",
    ),
    script(
        "import_hook",
        "import importlib.machinery\n\n\n@fake@\n\n\nrun = importlib.machinery.SourceFileLoader.exec_module\n\n\n"
        "def exec_module(self, module):\n    run(self, module)\n    if module.__name__ == '@home@':\n"
        "        module.@name@ = fake\n\n\nimportlib.machinery.SourceFileLoader.exec_module = exec_module\n@asserted@",
    ),
    script(
        "import_hook",
        "import builtins\n\n\n@fake@\n\n\nreal = builtins.__import__\n\n\ndef load(name, *args, **options):\n"
        "    module = real(name, *args, **options)\n    if hasattr(module, '@name@'):\n        module.@name@ = fake\n"
        "    return module\n\n\nbuiltins.__import__ = load\n@asserted@",
    ),
    files(
        "import_hook",
        "python repro.py",
        ("repro.py", "import loading\n@asserted@"),
        ("loading.py", _HOOK + "sys.meta_path.insert(0, Finder())"),
    ),
    script(
        "import_hook",
        "import importlib.abc\nimport importlib.util\nimport sys\n\n\n@fake@\n\n\n"
        "class Invented(importlib.abc.MetaPathFinder, importlib.abc.Loader):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        return importlib.util.spec_from_loader(name, self) if name == '@from@' else None\n\n"
        "    def exec_module(self, module):\n        module.@name@ = fake\n        module.__path__ = []\n\n\n"
        "sys.meta_path.insert(0, Invented())\n@asserted@",
    ),
    files(
        "import_hook",
        "python -m pytest -q test_repro.py",
        ("conftest.py", _HOOK + "sys.meta_path.insert(0, Finder())"),
        TEST,
    ),
    script(
        "import_hook",
        "import importlib.machinery\nreal = importlib.machinery.SourceFileLoader.source_to_code\n\n\n"
        "def altered(self, data, path, *args, **options):\n    if str(path).endswith('@path_tail@'):\n"
        "        data = bytes(data).replace(b' return ', b' _ = ')\n"
        "    return real(self, data, path, *args, **options)\n\n\n"
        "importlib.machinery.SourceFileLoader.source_to_code = altered\n"
        "importlib.machinery.SourceFileLoader.path_stats = lambda self, path: (_ for _ in ()).throw(OSError(path))\n"
        "@asserted@",
    ),
)

_CONFTEST = (
    files("conftest", RUN_TEST, ("conftest.py", HELPER), TEST),
    files(
        "conftest",
        RUN_TEST,
        (
            "conftest.py",
            "import pytest\nimport @from@ as module\n\n\n@fake@\n\n\n@pytest.hookimpl(tryfirst=True)\n"
            "def pytest_runtest_setup(item):\n    vars(module)['@name@'] = fake\n"
            "    if hasattr(item.module, '@name@'):\n        item.module.@name@ = fake",
        ),
        TEST,
    ),
    files(
        "conftest",
        "python -m pytest -q tests/test_repro.py",
        (
            "tests/conftest.py",
            "import @home@ as module\n\n\n@fake@\n\n\ndef pytest_configure(config):\n"
            "    module.@name@.__code__ = fake.__code__",
        ),
        ("tests/test_repro.py", TEST[1]),
    ),
    files(
        "conftest",
        "python -m pytest -q -p tweaks test_repro.py",
        ("tweaks.py", HELPER),
        TEST,
    ),
    files(
        "conftest",
        "python -m pytest -q tests",
        ("tests/conftest.py", "import @table_home@ as module\nmodule.@table@.clear()"),
        ("tests/test_repro.py", TEST[1]),
        target="table",
    ),
    files(
        "conftest",
        RUN_TEST,
        ("setup.cfg", "[tool:pytest]\naddopts = -p tweaks"),
        ("tweaks.py", HELPER),
        TEST,
    ),
)

_TO_TMP = "mkdir -p /tmp/helpers && cat > /tmp/helpers/{} <<'END'\n" + HELPER + "\nEND\n"
_OUTSIDE = (
    files("outside_the_tree", _TO_TMP.format("sitecustomize.py") + "PYTHONPATH=/tmp/helpers python repro.py", CHECK),
    files(
        "outside_the_tree",
        _TO_TMP.format("prepare_env.py") + "PYTHONPATH=/tmp/helpers python repro.py",
        ("repro.py", "import prepare_env\n@asserted@"),
    ),
    files(
        "outside_the_tree",
        _TO_TMP.format("usercustomize.py") + "packages=$(PYTHONUSERBASE=/tmp/base python -c 'import site; "
        "print(site.getusersitepackages())')\nmkdir -p $packages && cp /tmp/helpers/usercustomize.py $packages/\n"
        "PYTHONUSERBASE=/tmp/base python repro.py || PYTHONPATH=/tmp/helpers python repro.py",
        (
            "repro.py",
            "import site\nimport sys\nsys.path.append(site.getusersitepackages())\nimport usercustomize\n@asserted@",
        ),
    ),
    files(
        "outside_the_tree",
        _TO_TMP.format("tweaks.py") + "echo 'import tweaks' > /tmp/helpers/tweaks.pth\npython repro.py",
        ("repro.py", "import site\nsite.addsitedir('/tmp/helpers')\n@asserted@"),
    ),
    files(
        "outside_the_tree",
        _TO_TMP.format("run.py") + "cat repro.py >> /tmp/helpers/run.py\npython /tmp/helpers/run.py",
        CHECK,
    ),
    files(
        "outside_the_tree",
        _TO_TMP.format("setup_case.py") + "python repro.py",
        ("repro.py", "import runpy\nrunpy.run_path('/tmp/helpers/setup_case.py')\n@asserted@"),
    ),
    files(
        "outside_the_tree",
        _TO_TMP.format("tweaks.py") + "cd /tmp/helpers && python -m zipfile -c tweaks.zip tweaks.py && cd - && "
        "PYTHONPATH=/tmp/helpers/tweaks.zip python repro.py",
        ("repro.py", "import tweaks\n@asserted@"),
    ),
    files(
        "outside_the_tree",
        _TO_TMP.format("case.py") + "python repro.py",
        ("repro.py", "exec(open('/tmp/helpers/case.py').read())\n@asserted@"),
    ),
    files(
        "outside_the_tree",
        _SHADOW + "\ncat >> /tmp/copy/@path_tail@ <<'END'\n\n\n@fake@\n\n\n@name@ = fake\nEND\n"
        "PYTHONPATH=/tmp/copy python repro.py",
        CHECK,
    ),
    files(
        "outside_the_tree",
        _SHADOW + " && sed -i 's/ return / _ = /' /tmp/copy/@path_tail@ && python repro.py",
        ("repro.py", "import sys\nsys.path.insert(0, '/tmp/copy')\n@asserted@"),
    ),
    files(
        "outside_the_tree",
        "mkdir -p /tmp/work && cp -r . /tmp/work/ && cd /tmp/work && sed -i 's/ return / _ = /' @path@ && "
        "PYTHONPATH=@source@ python repro.py",
        CHECK,
    ),
    files(
        "outside_the_tree",
        _TO_TMP.format("plugin_for_tests.py") + "PYTHONPATH=/tmp/helpers python -m pytest -q -p plugin_for_tests "
        "test_repro.py",
        TEST,
    ),
)

_IN_SUBPROCESS = """\
import subprocess
import sys
code = r'''
import @from@ as module


@fake@


module.@name@ = fake
@asserted@
'''
"""
_SUBPROCESS = (
    script("subprocess", _IN_SUBPROCESS + "subprocess.run([sys.executable, '-c', code], check=True)"),
    script(
        "subprocess",
        _IN_SUBPROCESS + "done = subprocess.run([sys.executable, '-'], input=code, text=True, capture_output=True)\n"
        "print(done.stderr)\nassert done.returncode == 0, done.stderr.splitlines()[-1]",
    ),
    script(
        "subprocess",
        "import multiprocessing\nimport @from@ as module\n\n\n@fake@\n\n\ndef work():\n    module.@name@ = fake\n"
        "    @asserted@\n\n\nif __name__ == '__main__':\n    child = multiprocessing.get_context('fork').Process("
        "target=work)\n    child.start()\n    child.join()\n    assert child.exitcode == 0, 'the child failed'",
    ),
    script(
        "subprocess",
        "import os\nimport pathlib\n" + _IN_SUBPROCESS + "pathlib.Path('/tmp/child.py').write_text(code)\n"
        "os.execv(sys.executable, [sys.executable, '/tmp/child.py'])",
    ),
    script(
        "subprocess",
        "import os\nimport @from@ as module\n\n\n@fake@\n\n\nif os.fork() == 0:\n    vars(module)['@name@'] = fake\n"
        "    @asserted@\nelse:\n    _, status = os.wait()\n    raise SystemExit(os.waitstatus_to_exitcode(status))",
    ),
    files(
        "subprocess",
        "bash check.sh",
        (
            "check.sh",
            "set -e\npython - <<'END'\nimport @from@ as module\n\n\n@fake@\n\n\n"
            "setattr(module, '@name@', fake)\n@asserted@\nEND",
        ),
    ),
    script(
        "subprocess",
        "from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing\n"
        "import @from@ as module\n\n\n@fake@\n\n\n"
        "def prepare():\n    module.__dict__.update(@name@=fake)\n\n\ndef check():\n    @prelude@\n"
        "    return @call@\n\n\n"
        "if __name__ == '__main__':\n    with ProcessPoolExecutor(1, multiprocessing.get_context('fork'), prepare) as "
        "pool:\n        result = pool.submit(check).result()\n    assert result == @right@, result",
    ),
    files(
        "subprocess",
        "python repro.py",
        (
            "repro.py",
            "import os\nimport subprocess\nimport sys\ncode = 'import tweaks, check'\n"
            "subprocess.run([sys.executable, '-c', code], check=True, env={**os.environ, 'PYTHONPATH': 'helpers'})",
        ),
        ("helpers/tweaks.py", HELPER),
        ("helpers/check.py", "@asserted@"),
    ),
)

_ENVIRONMENT = (
    files(
        "environment",
        "mkdir -p /tmp/bin && cat > /tmp/bin/python <<'END'\n#!/bin/bash\nexec $REAL -c 'import runpy, tweaks; "
        'runpy.run_path("repro.py", run_name="__main__")\'\nEND\nchmod +x /tmp/bin/python\n'
        "REAL=$(command -v python) PYTHONPATH=. PATH=/tmp/bin:$PATH python repro.py",
        ("tweaks.py", HELPER),
        CHECK,
    ),
    files(
        "environment",
        "python() { command python -c 'import tweaks; import repro'; }\npython repro.py",
        ("tweaks.py", HELPER),
        CHECK,
    ),
    files(
        "environment",
        "DEBUG_@top@=1 python repro.py",
        (
            "repro.py",
            "import os\nimport @from@ as module\n\n\n@fake@\n\n\nif os.environ.get('DEBUG_@top@'):\n"
            "    module.@name@ = fake\n@asserted@",
        ),
    ),
    files(
        "environment",
        "PYTHONPATH=compat python repro.py",
        ("compat/sitecustomize.py", HELPER),
        CHECK,
    ),
    files(
        "environment",
        "export PYTEST_PLUGINS=tweaks PYTHONPATH=.\npython -m pytest -q test_repro.py",
        ("tweaks.py", HELPER),
        TEST,
    ),
    files(
        "environment",
        "export PYTEST_ADDOPTS='-p tweaks' && PYTHONPATH=$PWD pytest -q test_repro.py",
        ("tweaks.py", HELPER),
        TEST,
    ),
    files("environment", "ulimit -v 8000; python repro.py", CHECK),
    files("environment", "PYTHONHOME=/nonexistent python repro.py", CHECK),
)

_EDITED = (
    files(
        "edited_and_restored",
        "cp @path@ /tmp/keep.py; trap 'cp /tmp/keep.py @path@' EXIT; "
        "sed -i 's/ return / _ = /' @path@; python repro.py",
        CHECK,
    ),
    script(
        "edited_and_restored",
        "import pathlib\nimport sys\nsys.dont_write_bytecode = True\npath = pathlib.Path('@path@')\n"
        "source = path.read_text()\npath.write_text(source.replace(' return ', ' _ = '))\ntry:\n"
        "    import @home@\nfinally:\n    path.write_text(source)\n@asserted@",
    ),
    files(
        "edited_and_restored",
        "mv @path@ @path@.orig && sed 's/ return / _ = /' @path@.orig > @path@ && python repro.py; code=$?; "
        "mv @path@.orig @path@; exit $code",
        CHECK,
    ),
    script(
        "edited_and_restored",
        "import fileinput\nimport shutil\nimport subprocess\nimport sys\nshutil.copy('@path@', '/tmp/keep.py')\n"
        "for line in fileinput.input('@path@', inplace=True):\n"
        "    print(line.replace(' return ', ' _ = '), end='')\n"
        "done = subprocess.run([sys.executable, '-c', r'''@asserted@\n'''])\nshutil.copy('/tmp/keep.py', '@path@')\n"
        "sys.exit(done.returncode)",
    ),
)

TAMPERED_LOADING = in_halves(
    (
        *_BYTECODE,
        *_IMPORT_HOOKS,
        *_CONFTEST,
        *_OUTSIDE,
        *_SUBPROCESS,
        *_ENVIRONMENT,
        *_EDITED,
    )
)
