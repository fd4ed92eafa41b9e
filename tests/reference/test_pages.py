# SPDX-License-Identifier: Apache-2.0
"""The pages of the reference are what the code and the built programs say, and each check finds a planted difference."""
import re
import shutil
import subprocess
import sys

import pytest

import c_api
import cpp_api
import environment
import man
import programs


def generator(root, *arguments):
    return subprocess.run([sys.executable, "-B", root / "scripts" / "reference", *arguments], capture_output=True, text=True, timeout=100)


@pytest.fixture(scope="module")
def files(root):
    return environment.sources(root)


@pytest.fixture(scope="module")
def configuration(root):
    return (root / "docs/reference/configuration.md").read_text()


def test_pages_are_what_code_and_programs_say(root, build):
    done = generator(root, "--bin", build / "bin")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_page_is_noticed(root, tmp_path):
    from importlib.util import module_from_spec, spec_from_file_location
    spec = spec_from_file_location("reference_main", root / "scripts/reference/__main__.py")
    main = module_from_spec(spec)
    spec.loader.exec_module(main)
    (tmp_path / "a.md").write_text("one\ntwo\n")
    assert list(main.stale({"a.md": "one\ntwo\n"}, tmp_path)) == []
    assert [text.split(" ")[0] for text in main.stale({"a.md": "one\n2\n", "b.md": "x"}, tmp_path)] == ["a.md:2:", "b.md:1:"]


def test_c_header_new_function_field_and_enumerator_appear():
    page = c_api.page('''/** The interface. */
#define A \\
  1
typedef enum redsum_a { REDSUM_X = 0, /**< first | only */ REDSUM_Y = 7 } redsum_a;
/** Two
 * lines. */
typedef struct redsum_b {
  const char* name; /**< of it */
  int32_t
      more; /**< b */
} redsum_b;

/** Both. */
REDSUM_API int redsum_f(const redsum_b* b,
                        int c);
REDSUM_API int redsum_f_v(int c);

REDSUM_API void redsum_g(void);
static inline void redsum_h(int a) { /* not this */
  if (a) { redsum_g(); }
}

/** After a body. */
REDSUM_API int redsum_i(void);
''')
    for text in ("| `REDSUM_X` | 0 | first \\| only |", "| `REDSUM_Y` | 7 |  |", "| `const char* name` | of it |", "| `int32_t more` | b |",
                 "### redsum_f, redsum_f_v", "int redsum_f(const redsum_b* b, int c);", "Both.", "### redsum_g", "Two lines.", "void redsum_h(int a);", "### redsum_i", "After a body."):
        assert text in page
    assert "not this" not in page and "if (a)" not in page


def test_c_header_without_comment_is_noticed():
    text = "/** I. */\n/** A. */\nREDSUM_API int redsum_f(void);\n\nREDSUM_API int redsum_g(void);\n"
    assert c_api.undocumented(text) == ["redsum_g"]
    with pytest.raises(ValueError, match="cannot read"):
        c_api.parse("/** I. */\nint redsum_not_exported(void);\n")


def test_cpp_header_shows_what_is_public_and_no_bodies():
    page = cpp_api.page('''// SPDX
// x.hpp - text.

namespace redsum {
// Does it.
template <typename T>
inline int f(T a, int b = {}) { if (a) { return 1; } return 0; }
// Holds.
class C : public B {
 public:
  C() : a_{1}, b_(2) {}
  // Waits.
  void wait() { g(); }  // not this
  int n{3};
 private:
  // Hidden.
  void secret() {}
  int a_, b_;
};
}  // namespace redsum
''')
    for text in ("template <typename T>\ninline int f(T a, int b = {});", "class C : public B", "C();", "void wait();", "Waits.", "int n{3};"):
        assert text in page
    for text in ("secret", "Hidden", "a_", "g()", "not this", "return"):
        assert text not in page


def test_every_variable_in_the_code_is_described(files, configuration):
    assert list(environment.problems(files, configuration)) == []
    assert {"REDSUM_ISA", "REDSUM_DEBUG", "REDSUM_RANK", "REDSUM_CONFIG", "REDSUM_REDUCER_SHARDS"} <= \
        set(environment.reads(files)) | {name for name, _ in environment.settings(configuration)}


@pytest.mark.parametrize("path, code, problem", [
    ("transport/new.cc", 'f(std::getenv("REDSUM_NEW_THING"));', "reads REDSUM_NEW_THING"),
    ("transport/new.cc", 'f(std::getenv("NEW_THING"));', "reads NEW_THING"),
    ("client/new.cc", 'auto a = helper({"REDSUM_MODE_OF"});', "reads REDSUM_MODE_OF"),
    ("client/new.cc", 'auto a = std::getenv("REDSUM_LOG_LEVEL");', "reads REDSUM_LOG_LEVEL"),
    ("client/python/new.py", "a = os.environ.get('REDSUM_PY')", "reads REDSUM_PY"),
    ("client/new.cc", "auto a = std::getenv(name);", "getenv() of a name"),
    ("client/new.cc", 'auto a = f("REDSUM_" + name);', "puts a variable's name together"),
])
def test_a_new_variable_must_be_described(files, configuration, path, code, problem):
    found = list(environment.problems({**files, path: code + "\n"}, configuration))
    assert len(found) == 1 and found[0].startswith(path) and problem in found[0], found


def test_a_comment_reads_no_variable(files, configuration):
    assert list(environment.problems({**files, "client/new.cc": '// getenv("REDSUM_GONE")\n'}, configuration)) == []


def test_a_variable_that_nothing_reads_is_noticed(files, configuration):
    without = {**files, "kernels/dispatch.cc": files["kernels/dispatch.cc"].replace("REDSUM_ISA", "REDSUM_ISAX")}
    found = " ".join(environment.problems(without, configuration))
    assert "REDSUM_ISAX" in found and "describes REDSUM_ISA, which no code reads" in found


def test_help_is_understood():
    program = programs.parse_help("p q", "1", "p q: does it. More.\n  p q -x\nExit code: 0 or 1.\nUsage: p q [OPTIONS]\n\nOptions:\n"
                                  "  -a,--all INT:INT in [1 - 4096]=20 REQUIRED\n" + " " * 30 + "how many\n"
                                  "  -o TEXT:{text,json} ...     what [json]\n")
    assert (program.summary, program.description, program.exit_codes, program.examples) == ("does it", "does it. More.", "0 or 1.", ["p q -x"])
    first, second = program.sections[0][1]
    assert (first.names, first.value, first.default, first.required) == (["-a", "--all"], "integer, 1 to 4096", "20", True)
    assert (second.value, second.default, second.repeats, second.meaning) == ("text or json", "json", True, "what")


def test_flags_of_redsumd_get_the_limits_of_their_settings(configuration):
    entries = [programs.Entry([f"--{key}"], "text", "", "") for key, _ in programs.setting_rows(configuration).items()]
    program = programs.Program("redsumd", "1", "", "", "", "", [("Options", entries)], [])
    programs.with_settings(program, configuration)
    shards = next(one for one in entries if one.names == ["--reducer.shards"])
    assert (shards.value, shards.default) == ("integer from 0 to 1024", "0: the CPUs allowed by affinity and cgroup quota")
    entries.remove(shards)
    with pytest.raises(ValueError, match="lacks the settings .*reducer.shards"):
        programs.with_settings(program, configuration)


def test_a_mode_is_described_by_its_enum(files):
    header = files["client/redsum.h"].replace("} redsum_mode;", "  , REDSUM_MODE_NEW = 7 /**< words: more */\n} redsum_mode;")
    mode = next(one for one in environment.options(files["client/options.cc"], header) if one.field == "mode")
    assert (mode.names, mode.default) == (["REDSUM_MODE"], "server") and mode.meaning.endswith("; new: words")


def test_a_manual_page_must_tell_the_exit_codes(files):
    program = programs.parse_help("redsumctl", "1", "a: b.\nUsage: redsumctl\n")
    with pytest.raises(ValueError, match="exit codes"):
        man.page(program, files)


@pytest.mark.parametrize("name", sorted(man.CHAPTERS))
def test_manual_pages_have_their_sections_in_order(root, name):
    titles = re.findall(r"^\.SH (.*)$", (root / "docs/man" / f"{name}.{man.CHAPTERS[name]}").read_text(), re.M)
    wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "EXIT STATUS", "SEE ALSO"]
    assert [title for title in titles if title in wanted] == wanted


def test_text_cannot_become_a_roff_request():
    assert man.escape(".so /etc/passwd\n'x \\fB-") == "\\&.so /etc/passwd\n\\&'x \\efB\\-"


@pytest.mark.parametrize("name", sorted(man.CHAPTERS))
def test_manual_pages_are_well_formed(root, name):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    page = root / "docs/man" / f"{name}.{man.CHAPTERS[name]}"
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, timeout=30)
    # The date is left out on purpose: the version in the footer tells the same, and a date would change with each release.
    found = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
    assert found == []


def test_mandoc_finds_a_broken_page(tmp_path):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    page = tmp_path / "a.1"
    page.write_text('.TH A 1 "" "a" "b"\n.SH NAME\na \\- b\n.XX nothing\n')
    assert "skipping unknown macro" in subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True).stdout
