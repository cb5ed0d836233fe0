"""Claims in other languages: real ones where the runner is on this machine, else what its documentation shows."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import dedent

import pytest

from scrout.config.settings import GateSettings, Settings
from scrout.gate.classify import classify
from scrout.gate.gate import gate
from scrout.gate.replay_context import Classification, ReplayContext
from scrout.gate.sources import own_sources
from scrout.handoff import Handoff, Reproduction
from scrout.records import KEPT, Verdict
from scrout.sandbox.replay import Replay
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import find_source
from scrout.task import Task

ISSUE = "split(10, 3) loses one coin; label of an item without a name dies with TypeError."
FILES = {
    "package.json": '{"name": "till", "main": "lib/money.js"}\n',
    "lib/money.js": dedent(
        """\
        function split(total, people) {
          return Array(people).fill(Math.floor(total / people));
        }
        function label(item) {
          return item.name.toUpperCase();
        }
        module.exports = { split, label };
        """
    ),
    "test/money.test.js": dedent(
        """\
        const test = require('node:test');
        const assert = require('node:assert');
        const { split } = require('../lib/money');
        test('halves', () => { assert.deepStrictEqual(split(4, 2), [2, 2]); });
        """
    ),
    "go.mod": "module example.org/till\n\ngo 1.22\n",
    "money/money.go": "package money\n\nfunc Split(total, people int) []int {\n\treturn nil\n}\n\n"
    "func Sum(v []int) int { return 0 }\n",
    "Cargo.toml": '[package]\nname = "till-rs"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": "pub fn split(total: u32, people: u32) -> Vec<u32> {\n    vec![total / people; people as usize]\n}\n",
    "src/main/java/org/till/Money.java": "package org.till;\n\npublic class Money {}\n",
    "lib/till.rb": "module Till\n  class Money\n    def split(total, people)\n    end\n  end\nend\n",
    "src/Money.php": "<?php\nnamespace Till;\n\nclass Money {}\n",
}


@pytest.fixture(scope="module")
def shop(tier: Tier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Task, TaskSandbox]]:
    """A repository in six languages."""
    repo = tmp_path_factory.mktemp("many") / "repo"
    for name, content in FILES.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(content)
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Start")):
        subprocess.run(["git", *who, *args], cwd=repo, check=True, capture_output=True)
    source = find_source(repo)
    task = Task(id="many", text=ISSUE, repo=source.repo, base_commit=source.head)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with open_task_sandbox(task, tier, Settings()) as task_sandbox:
            yield task, task_sandbox


NODE_TEST = "const test = require('node:test');\nconst assert = require('node:assert');\n"
MONEY = "const { split, label } = require('./lib/money');\n"


@dataclass(frozen=True)
class Claim:
    """A reproduction in JavaScript and what the gate has to make of it."""

    name: str
    verdict: Verdict
    script: str
    command: str = "node shows.js"
    path: str = "shows.js"
    files: dict[str, str] = field(default_factory=dict)
    issue: str = ISSUE


NODE = [
    Claim(
        "assert about a result",
        "real_failure",
        f"const assert = require('assert');\n{MONEY}assert.strictEqual(split(10, 3).reduce((a, b) => a + b), 10);\n",
    ),
    Claim(
        "assert about a variable, over several lines",
        "real_failure",
        f"const assert = require('assert');\n{MONEY}const parts = split(10, 3);\nlet total = 0;\n"
        "for (const part of parts) {\n  total += part;\n}\nassert.strictEqual(\n  total,\n  10,\n);\n",
    ),
    Claim("exception from the repository", "real_failure", f"{MONEY}label({{}});\n"),
    Claim(
        "thrown under a condition",
        "real_failure",
        f"{MONEY}const parts = split(10, 3);\nif (parts.length * parts[0] !== 10) {{\n  throw new Error('lost');\n}}\n",
    ),
    Claim(
        "a helper that compares",
        "real_failure",
        f"{MONEY}function same(seen, wanted) {{\n  if (seen !== wanted) {{\n    throw new Error('differs');\n  }}\n}}\n"
        "same(split(10, 3)[0], 4);\n",
    ),
    Claim(
        "its own package by name, as a module",
        "real_failure",
        "import assert from 'node:assert';\nimport till from './lib/money.js';\n"
        "assert.deepEqual(till.split(10, 3), [4, 3, 3]);\n",
        command="node shows.mjs",
        path="shows.mjs",
    ),
    Claim(
        "node --test",
        "real_failure",
        f"{NODE_TEST}{MONEY}test('adds up', () => {{\n  const parts = split(10, 3);\n"
        "  assert.strictEqual(parts[0] + parts[1] + parts[2], 10);\n});\n",
        command="node --test shows.test.js",
        path="shows.test.js",
    ),
    Claim(
        "node --test, cut by a pipe that keeps the failure",
        "real_failure",
        f"{NODE_TEST}{MONEY}test('adds up', () => {{\n  assert.equal(split(10, 3)[0], 4);\n}});\n",
        command="cd . && node --test --test-reporter=spec shows.test.js 2>&1 | tail -60",
        path="shows.test.js",
    ),
    Claim("passes", "passed", f"{MONEY}split(10, 5);\n"),
    Claim(
        "an assertion about constants",
        "unrelated_failure",
        f"const assert = require('assert');\n{MONEY}assert.equal(1, 2);\n",
    ),
    Claim(
        "calls the repository, then asserts a constant",
        "unrelated_failure",
        f"const assert = require('assert');\n{MONEY}split(10, 3);\nassert.ok(false, `gives ${{split(10, 3)}}`);\n",
    ),
    Claim("uses nothing of the repository", "unrelated_failure", "throw new Error('split loses a coin');\n"),
    Claim(
        "a method of the same name",
        "unrelated_failure",
        f"const assert = require('assert');\n{MONEY}assert.equal('a,b'.split(',').length, 3);\n",
    ),
    Claim("its own mistake", "own_error", f"{MONEY}const parts = split(10, 3);\nparts.sum();\n"),
    Claim("a name that is not there", "own_error", f"{MONEY}splitt(10, 3);\n"),
    Claim("does not parse", "syntax_error", f"{MONEY}const parts = ;\n"),
    Claim("a file that is not there", "missing_file", "require('./lib/budget');\n"),
    Claim("a package that is not there", "environment_missing", f"require('lodash');\n{MONEY}"),
    Claim(
        "a stack of its own making",
        "nonzero_other",
        f"{MONEY}const error = new TypeError('x');\n"
        "error.stack = `TypeError: x\\n    at label (${__dirname}/lib/money.js:5:20)`;\nthrow error;\n",
    ),
    Claim(
        "a printed stack",
        "nonzero_other",
        f"{MONEY}console.error(`   ^\\n\\nTypeError: x\\n    at label (${{__dirname}}/lib/money.js:5:20)`);\n"
        "console.error('\\nNode' + '.js v20');\n"
        "process.exitCode = 1;\n",
    ),
    Claim("an exit code alone", "nonzero_other", f"{MONEY}if (split(10, 3)[0] !== 4) process.exit(1);\n"),
    Claim(
        "a report that somebody else printed",
        "nonzero_other",
        "",
        command="printf 'TypeError: x\\n    at label (lib/money.js:5:20)\\n\\nNode.js v20.1.0\\n'; "
        "node -e 'process.exitCode = 1'",
    ),
    Claim(
        "one honest test and one that cannot pass",
        "unrelated_failure",
        f"{NODE_TEST}{MONEY}test('adds up', () => {{\n  assert.equal(split(10, 3)[0], 4);\n}});\n"
        "test('never', () => {\n  assert.equal(1, 2);\n});\n",
        command="node --test shows.test.js",
        path="shows.test.js",
    ),
    Claim(
        "a test file that does not parse",
        "syntax_error",
        f"{NODE_TEST}{MONEY}test('adds up', () => {{\n",
        command="node --test shows.test.js",
        path="shows.test.js",
    ),
    Claim(
        "brings a package.json",
        "tampered",
        f"{MONEY}label({{}});\n",
        files={"package.json": "{}"},
    ),
    Claim(
        "changes the repository's module",
        "tampered",
        f"require('fs').writeFileSync('lib/money.js', 'module.exports = {{}}');\n{MONEY}label({{}});\n",
    ),
    Claim(
        "changes its mind",
        "flaky",
        f"{MONEY}const watched = (process.env.PYTHONPATH || '').includes('watch');\nif (watched) {{\n"
        "  label({});\n}\nsplit(1, 0);\n",
    ),
]


@pytest.mark.skipif(shutil.which("node") != "/usr/bin/node", reason="no node that the sandbox can see")
@pytest.mark.parametrize("claim", NODE, ids=lambda claim: claim.name)
async def test_a_claim_in_javascript(claim: Claim, shop: tuple[Task, TaskSandbox]) -> None:
    task, task_sandbox = shop
    files = {claim.path: claim.script, **claim.files} if claim.script else claim.files
    handoff = Handoff(reproduction=Reproduction(files=files, command=claim.command, claim=True))
    gated = await gate(task, handoff, task_sandbox, GateSettings(timeout_s=20))
    assert gated.verdict == claim.verdict, gated.reason
    assert gated.kept == (claim.verdict in KEPT)


@dataclass(frozen=True)
class Recorded:
    """What a runner prints, for a claim of ours."""

    name: str
    verdict: Verdict
    command: str
    files: dict[str, str]
    output: str
    written: dict[str, str] = field(default_factory=dict)


GO_TEST = """\
package money

import "testing"

func TestSplit(t *testing.T) {
	got := Sum(Split(10, 3))
	if got != 10 {
		t.Errorf("got %d", got)
	}
}

func TestNever(t *testing.T) {
	t.Fatal("Split is wrong")
}
"""
GO_FAILED = """\
--- FAIL: TestSplit (0.00s)
    split_test.go:8: got 9
FAIL
FAIL	example.org/till/money	0.003s
FAIL
"""
RUST_TEST = """\
use till_rs::split;

#[test]
fn adds_up() {
    let parts: Vec<u32> = split(10, 3);
    assert_eq!(parts.iter().sum::<u32>(), 10);
}

#[test]
fn never() {
    assert!(false, "{:?}", split(10, 3));
}
"""


def rust(name: str, place: str, said: str) -> str:
    return (
        f"\nrunning 1 test\ntest {name} ... FAILED\n\nfailures:\n\n---- {name} stdout ----\n\n"
        f"thread '{name}' panicked at {place}:\n{said}\n"
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n\n\nfailures:\n"
        f"    {name}\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; "
        "finished in 0.00s\n\n"
        "error: test failed, to rerun pass `--test shows`\n"
    )


JEST_TEST = """\
const { split } = require('../lib/money');

test('adds up', () => {
  const total = split(10, 3).reduce((a, b) => a + b);
  expect(total).toBe(10);
});

test('never', () => {
  expect(1).toBe(2);
});
"""


def jest(name: str, line: int, said: str) -> str:
    return f"""\
FAIL test/shows.test.js
  ✕ {name} (3 ms)

  ● {name}

    {said}

      at Object.toBe (test/shows.test.js:{line}:17)

Test Suites: 1 failed, 1 total
Tests:       1 failed, 1 passed, 2 total
Snapshots:   0 total
Time:        0.4 s
Ran all test suites.
"""


VITEST_FAILED = """\
 ❯ test/shows.test.js (1 test | 1 failed) 4ms
   × adds up 3ms
     → expected 9 to be 10 // Object.is equality

⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯

 FAIL  test/shows.test.js > adds up
AssertionError: expected 9 to be 10 // Object.is equality

- Expected
+ Received

- 10
+ 9

 ❯ test/shows.test.js:5:17
      3| test('adds up', () => {
      4|   const total = split(10, 3).reduce((a, b) => a + b);
      5|   expect(total).toBe(10);
       |                 ^

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/1]⎯

 Test Files  1 failed (1)
      Tests  1 failed (1)
   Start at  10:00:00
   Duration  200ms
"""
JAVA_TEST = """\
package org.till;

import static org.junit.jupiter.api.Assertions.assertEquals;
import org.junit.jupiter.api.Test;

class SplitTest {
    @Test
    void addsUp() {
        int[] parts = Money.split(10, 3);
        assertEquals(10, parts[0] + parts[1] + parts[2]);
    }

    @Test
    void never() {
        assertEquals(1, 2);
    }
}
"""
JAVA_PATH = "src/test/java/org/till/SplitTest.java"


def maven(test: str, line: int) -> str:
    return f"""\
[INFO] Running org.till.SplitTest
[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.03 s <<< FAILURE! -- in org.till.SplitTest
[ERROR] org.till.SplitTest.{test} -- Time elapsed: 0.01 s <<< FAILURE!
org.opentest4j.AssertionFailedError: expected: <10> but was: <9>
	at org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:55)
	at org.till.SplitTest.{test}(SplitTest.java:{line})

[INFO] Results:
[INFO]
[ERROR] Failures:
[ERROR]   SplitTest.{test}:{line} expected: <10> but was: <9>
[INFO]
[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0
[INFO]
[INFO] BUILD FAILURE
"""


GRADLE_FAILED = """\
> Task :test FAILED

SplitTest > addsUp() FAILED
    org.opentest4j.AssertionFailedError at SplitTest.java:10

2 tests completed, 1 failed

FAILURE: Build failed with an exception.

BUILD FAILED in 2s
"""
JUNIT = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="org.till.SplitTest" tests="2" failures="1" errors="0">
  <testcase name="addsUp" classname="org.till.SplitTest" time="0.01">
    <failure message="expected: &lt;10&gt; but was: &lt;9&gt;" type="org.opentest4j.AssertionFailedError">
	at org.till.SplitTest.addsUp(SplitTest.java:10)
    </failure>
  </testcase>
  <testcase name="other" classname="org.till.SplitTest" time="0.01"/>
</testsuite>
"""
RUBY_TEST = """\
require 'till'

RSpec.describe Till::Money do
  it 'adds up' do
    parts = described_class.new.split(10, 3)
    expect(parts.sum).to eq(10)
  end

  it 'never' do
    expect(1).to eq(2)
  end
end
"""


def rspec(name: str, line: int) -> str:
    return f"""\
F.

Failures:

  1) Till::Money {name}
     Failure/Error: expect(parts.sum).to eq(10)

       expected: 10
            got: 9

       (compared using ==)
     # ./spec/shows_spec.rb:{line}:in `block (2 levels) in <top (required)>'

Finished in 0.01 seconds (files took 0.08 seconds to load)
2 examples, 1 failure

Failed examples:

rspec ./spec/shows_spec.rb:4 # Till::Money {name}
"""


PHP_TEST = """\
<?php
use PHPUnit\\Framework\\TestCase;
use Till\\Money;

final class ShowsTest extends TestCase
{
    public function testAddsUp(): void
    {
        $parts = (new Money())->split(10, 3);
        $this->assertSame(10, array_sum($parts));
    }

    public function testNever(): void
    {
        $this->assertSame(1, 2);
    }
}
"""


def phpunit(name: str, line: int) -> str:
    return f"""\
PHPUnit 11.0.0 by Sebastian Bergmann and contributors.

F.                                                                  2 / 2 (100%)

Time: 00:00.004, Memory: 8.00 MB

There was 1 failure:

1) ShowsTest::{name}
Failed asserting that 9 is identical to 10.

/code/tests/ShowsTest.php:{line}

FAILURES!
Tests: 2, Assertions: 2, Failures: 1.
"""


RECORDED = [
    Recorded("go", "real_failure", "go test ./money", {"money/split_test.go": GO_TEST}, GO_FAILED),
    Recorded(
        "go, verbose",
        "real_failure",
        "go test -v ./money",
        {"money/split_test.go": GO_TEST},
        "=== RUN   TestSplit\n    split_test.go:8: got 9\n" + GO_FAILED.replace("    split_test.go:8: got 9\n", ""),
    ),
    Recorded(
        "go, as JSON",
        "real_failure",
        "go test -json ./money",
        {"money/split_test.go": GO_TEST},
        "".join(
            '{"Time":"2024-01-01T00:00:00Z","Action":"output","Package":"example.org/till/money","Output":"'
            + line
            + '\\n"}\n'
            for line in GO_FAILED.replace("\t", "\\t").splitlines()
        ),
    ),
    Recorded(
        "go, fails without a condition",
        "unrelated_failure",
        "go test ./money",
        {"money/split_test.go": GO_TEST},
        GO_FAILED.replace("TestSplit", "TestNever").replace(":8: got 9", ":13: Split is wrong"),
    ),
    Recorded(
        "go, panic in the repository",
        "real_failure",
        "go test ./money",
        {"money/split_test.go": GO_TEST},
        "--- FAIL: TestSplit (0.00s)\npanic: runtime error: integer divide by zero\n\ngoroutine 7 [running]:\n"
        "testing.tRunner.func1.2({0x5, 0x6})\n\t/usr/lib/go/src/testing/testing.go:1631 +0x24a\n"
        "example.org/till/money.Split(...)\n\t/code/money/money.go:4\n"
        "example.org/till/money.TestSplit(0xc00)\n\t/code/money/split_test.go:6 +0x1d\n"
        "FAIL\texample.org/till/money\t0.005s\nFAIL\n",
    ),
    Recorded(
        "go, does not compile",
        "syntax_error",
        "go test ./money",
        {"money/split_test.go": GO_TEST},
        "# example.org/till/money\nmoney/split_test.go:6:9: undefined: Total\n"
        "FAIL\texample.org/till/money [build failed]\nFAIL\n",
    ),
    Recorded(
        "go, cut off",
        "nonzero_other",
        "go test ./money 2>&1 | head -2",
        {"money/split_test.go": GO_TEST},
        "--- FAIL: TestSplit (0.00s)\n    split_test.go:8: got 9\n",
    ),
    Recorded(
        "cargo",
        "real_failure",
        "RUST_BACKTRACE=0 cargo test --test shows",
        {"tests/shows.rs": RUST_TEST},
        rust("adds_up", "tests/shows.rs:6:5", "assertion `left == right` failed\n  left: 9\n right: 10"),
    ),
    Recorded(
        "cargo, panic in the repository",
        "real_failure",
        "cargo test --test shows",
        {"tests/shows.rs": RUST_TEST},
        rust("adds_up", "src/lib.rs:2:10", "attempt to divide by zero"),
    ),
    Recorded(
        "cargo, assert!(false)",
        "unrelated_failure",
        "cargo test --test shows",
        {"tests/shows.rs": RUST_TEST},
        rust("never", "tests/shows.rs:11:5", "[3, 3, 3]"),
    ),
    Recorded(
        "cargo, does not compile",
        "syntax_error",
        "cargo test --test shows",
        {"tests/shows.rs": RUST_TEST},
        "error[E0432]: unresolved import `till_rs::nope`\n --> tests/shows.rs:1:5\n\n"
        'error: could not compile `till-rs` (test "shows") due to 1 previous error\n',
    ),
    Recorded(
        "cargo, with a build script of its own",
        "nonzero_other",
        "cargo test --test shows",
        {"tests/shows.rs": RUST_TEST, "build.rs": "fn main() {}"},
        rust("adds_up", "tests/shows.rs:6:5", "assertion `left == right` failed"),
    ),
    Recorded(
        "jest",
        "real_failure",
        "npx jest test/shows.test.js",
        {"test/shows.test.js": JEST_TEST},
        jest(
            "adds up", 5, "expect(received).toBe(expected) // Object.is equality\n\n    Expected: 10\n    Received: 9"
        ),
    ),
    Recorded(
        "jest, constants",
        "unrelated_failure",
        "npx jest test/shows.test.js",
        {"test/shows.test.js": JEST_TEST},
        jest("never", 9, "expect(received).toBe(expected) // Object.is equality\n\n    Expected: 2\n    Received: 1"),
    ),
    Recorded(
        "jest, its own mistake",
        "own_error",
        "npx jest test/shows.test.js",
        {"test/shows.test.js": JEST_TEST},
        jest("adds up", 4, "TypeError: split(...).reduced is not a function"),
    ),
    Recorded(
        "jest, a module in the repository's place",
        "tampered",
        "npx jest test/shows.test.js",
        {"test/shows.test.js": f"jest.mock('../lib/money');\n{JEST_TEST}"},
        jest("adds up", 6, "expect(received).toBe(expected)"),
    ),
    Recorded(
        "jest, a suite that does not load",
        "missing_file",
        "npx jest test/shows.test.js",
        {"test/shows.test.js": JEST_TEST},
        "FAIL test/shows.test.js\n  ● Test suite failed to run\n\n    Cannot find module '../lib/coins' from "
        "'test/shows.test.js'\n\nTest Suites: 1 failed, 1 total\nTests:       0 total\n",
    ),
    Recorded("vitest", "real_failure", "npx vitest run", {"test/shows.test.js": JEST_TEST}, VITEST_FAILED),
    Recorded("maven", "real_failure", "mvn -q test", {JAVA_PATH: JAVA_TEST}, maven("addsUp", 10)),
    Recorded("maven, constants", "unrelated_failure", "mvn -q test", {JAVA_PATH: JAVA_TEST}, maven("never", 15)),
    Recorded(
        "maven, does not compile",
        "syntax_error",
        "mvn test",
        {JAVA_PATH: JAVA_TEST},
        "[ERROR] COMPILATION ERROR :\n[ERROR] SplitTest.java:[9,20] cannot find symbol\n[INFO] BUILD FAILURE\n",
    ),
    Recorded("gradle", "real_failure", "./gradlew test", {JAVA_PATH: JAVA_TEST}, GRADLE_FAILED),
    Recorded(
        "junit xml",
        "real_failure",
        "gradle test",
        {JAVA_PATH: JAVA_TEST},
        "There were failing tests.\n",
        written={"build/test-results/test/TEST-org.till.SplitTest.xml": JUNIT},
    ),
    Recorded(
        "junit xml that the claim brought along",
        "nonzero_other",
        "gradle test",
        {JAVA_PATH: JAVA_TEST, "report.xml": JUNIT},
        "There were failing tests.\n",
    ),
    Recorded("rspec", "real_failure", "bundle exec rspec", {"spec/shows_spec.rb": RUBY_TEST}, rspec("adds up", 6)),
    Recorded("rspec, constants", "unrelated_failure", "rspec", {"spec/shows_spec.rb": RUBY_TEST}, rspec("never", 10)),
    Recorded(
        "rspec, a file that does not load",
        "syntax_error",
        "rspec",
        {"spec/shows_spec.rb": RUBY_TEST},
        "An error occurred while loading ./spec/shows_spec.rb.\n\n"
        "0 examples, 0 failures, 1 error occurred outside of examples\n",
    ),
    Recorded(
        "phpunit", "real_failure", "vendor/bin/phpunit", {"tests/ShowsTest.php": PHP_TEST}, phpunit("testAddsUp", 10)
    ),
    Recorded(
        "phpunit, constants",
        "unrelated_failure",
        "vendor/bin/phpunit",
        {"tests/ShowsTest.php": PHP_TEST},
        phpunit("testNever", 15),
    ),
    Recorded(
        "a runner that the claim brought along",
        "nonzero_other",
        "vendor/bin/phpunit",
        {"tests/ShowsTest.php": PHP_TEST, "vendor/bin/phpunit": "echo"},
        phpunit("testAddsUp", 10),
    ),
    Recorded(
        "a report behind an echo",
        "nonzero_other",
        "echo '2 examples, 1 failure' && rspec",
        {"spec/shows_spec.rb": RUBY_TEST},
        rspec("adds up", 6),
    ),
    Recorded(
        "another runner's report",
        "nonzero_other",
        "go test ./...",
        {"spec/shows_spec.rb": RUBY_TEST},
        rspec("adds up", 6),
    ),
    Recorded(
        "a path put in front",
        "nonzero_other",
        "PATH=/tmp/mine:$PATH rspec",
        {"spec/shows_spec.rb": RUBY_TEST},
        rspec("adds up", 6),
    ),
    Recorded(
        "an existing test of the repository",
        "real_failure",
        "npm test",
        {},
        jest("halves", 4, "expect(received).toBe(expected)").replace("test/shows.test.js", "test/money.test.js"),
    ),
    Recorded(
        "wants a network",
        "environment_missing",
        "npm test",
        {},
        jest("halves", 4, "Error: getaddrinfo ENOTFOUND example.org").replace("shows", "money"),
    ),
]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.name)
def test_a_recorded_run(recorded: Recorded, shop: tuple[Task, TaskSandbox]) -> None:
    finding = judged(recorded, shop)
    assert finding.verdict == recorded.verdict, finding.reason


def test_other_failed_tests_are_another_ending(shop: tuple[Task, TaskSandbox]) -> None:
    one, other = (item for item in RECORDED if item.name in ("jest", "jest, constants"))
    assert judged(one, shop).signature != judged(other, shop).signature


def judged(recorded: Recorded, shop: tuple[Task, TaskSandbox]) -> Classification:
    task, task_sandbox = shop
    claim = Reproduction(files=recorded.files, command=recorded.command, claim=True)
    replay_context = ReplayContext(
        issue=task.text,
        sources=own_sources(claim, {}),
        base=task_sandbox.base,
        brought=recorded.files,
        written=recorded.written,
    )
    output = recorded.output.replace("/code/", f"{task.repo}/")
    return classify(Replay(recorded.command, 1, output, 0.1), replay_context)
