"""Names of shared batches: jobs, dead owners, and processes that do not see each other."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from test_node import FORKS, PATH, POPS, Rows, killed, launched, settings, started

import wavetrain
from wavetrain import _node_loader
from wavetrain._node_loader import job_of

# ---- Jobs ---------------------------------------------------------------------------------------


def loader_of(patch, rank=0, **given):
    launched(patch, rank)
    return wavetrain.DataLoader(Rows(), config=settings(), **{"node": "auto", **given})


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("node", ["auto", "own"])
def test_a_second_job_of_the_same_name_gets_the_fix(monkeypatch, rank, node):
    loader = loader_of(monkeypatch, rank, node=node)
    fix = f"MASTER_PORT={os.getpid()}.* its own MASTER_PORT, or node=NAME"
    fix = fix if node == "auto" else "has node='own', give each its own"
    name = loader._node.name
    with (
        wavetrain.serve(settings(), name, 2),
        wavetrain.attach(name, 1),
        pytest.raises(wavetrain.InvalidArgument, match=f"process {os.getpid()}.*{fix}"),
    ):
        next(iter(loader))


def test_a_job_has_a_name_if_a_launcher_gave_it_a_number_of_its_own():
    number = {"MASTER_PORT": "29500", "SLURM_JOB_ID": "7", "PMIX_NAMESPACE": "prterun-a-1"}
    names = {job_of({"MASTER_ADDR": "localhost", word: text}) for word, text in number.items()}
    assert len(names) == 3
    for shared in (
        {},
        {"MASTER_ADDR": "localhost"},
        {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0"},
        {"MASTER_ADDR": "localhost", "MASTER_PORT": ""},
        {"SLURM_STEP_ID": "0"},
    ):
        with pytest.raises(RuntimeError, match="set MASTER_PORT, as torchrun does, or give node="):
            job_of(shared)


@pytest.mark.parametrize("node", ["two words", "ä", "n" * 51, "a:b"])
def test_a_node_that_cannot_be_a_name_is_refused_as_such(monkeypatch, node):
    with pytest.raises(ValueError, match="node must be 'auto', a name of at most 50 letters"):
        loader_of(monkeypatch, node=node)
    assert loader_of(monkeypatch, node="n" * 50)._node.name.startswith("n" * 50)


def test_a_rank_that_waits_for_local_rank_0_warns_and_then_names_the_cause(monkeypatch):
    monkeypatch.setattr(_node_loader, "SAY_S", 0.05)
    monkeypatch.setattr(_node_loader, "ATTACH_S", 0.2)
    loader = loader_of(monkeypatch, 1)
    number = loader._node.name.rpartition("-")[2]
    text = f"local rank 1 waits for local rank 0 to begin its iteration of loader {number} of"
    with (
        pytest.warns(RuntimeWarning, match=f"{text}.*in the same order on all ranks"),
        pytest.raises(wavetrain.NotFound, match="in the same order on all ranks of a node"),
    ):
        next(iter(loader))


def test_local_rank_0_that_waits_for_ranks_warns_and_names_the_cause(monkeypatch):
    monkeypatch.setattr(_node_loader, "SAY_S", 0.05)
    monkeypatch.setattr(_node_loader, "ATTACH_S", 0.3)
    loader = loader_of(monkeypatch)
    text = "local rank 0 waits for 1 of the 2 ranks of its node to begin their iteration of loader"
    with (
        pytest.warns(RuntimeWarning, match=f"{text}.*in the same order on all ranks"),
        pytest.raises(wavetrain.ShutdownError, match="local rank 1 did not attach"),
    ):
        for batch in loader:
            batch.release()


# ---- Owners that do not answer ------------------------------------------------------------------


@pytest.fixture
def name(request):
    return f"test-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}"


def test_attach_to_a_name_that_a_child_of_a_dead_owner_keeps_names_the_child(name):
    owner = started(FORKS, name)
    child = int(owner.stdout.readline())
    owner.wait()
    text = f"process {owner.pid}. has ended, and a child that it forked keeps the name"
    try:
        with pytest.raises(wavetrain.NotFound, match=text):
            wavetrain.attach(name, 0, timeout_s=0.1)
    finally:
        os.kill(child, signal.SIGKILL)
        owner.stdout.close()
        owner.stdin.close()


def test_attach_to_an_owner_with_too_many_connections_does_not_deny_the_owner(tmp_path):
    path = str(tmp_path / "listener")
    kind = (socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with socket.socket(*kind) as listener, socket.socket(*kind) as one:
        listener.bind(path)
        listener.listen(0)
        one.connect(path)
        with pytest.raises(wavetrain.NotFound, match="connections that it did not answer"):
            wavetrain.attach(path, 0, timeout_s=0.05)


DENIED = """
import os, sys, wavetrain
os.seteuid(65534)
try:
    wavetrain.attach(sys.argv[1], 0)
except wavetrain.StorageError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to be another user")
def test_attach_to_a_path_that_is_closed_to_this_user_names_the_fix(tmp_path):
    tmp_path.chmod(0o700)
    with wavetrain.serve(settings(), str(tmp_path / "socket"), 1):
        other = started(DENIED, tmp_path / "socket")
        text = other.communicate(timeout=60)[0]
    assert "permission denied" in text
    assert "run the owner and this process as one user" in text


# ---- PID namespaces -----------------------------------------------------------------------------

OWNS = """
import os, sys, time, wavetrain
from test_node import rows, settings
owner = wavetrain.serve(settings(), sys.argv[1], 2)
owner.push(rows(40))
print("open", flush=True)
sys.stdin.readline()
child = os.fork()
if not child:
    time.sleep(60)  # keeps the sockets of the owner
    os._exit(0)
print(child, flush=True)
time.sleep(60)
"""
TAKES = """
import sys, wavetrain
with wavetrain.attach(sys.argv[1], 0, pop_timeout_s=10) as consumer:
    try:
        while True:
            consumer.pop().release()
            print("popped", flush=True)
    except wavetrain.WavetrainError as error:
        print(error)
"""
APART = ["unshare", "--pid", "--fork", "--kill-child"]
OTHER = "a process of another PID namespace"


def can_be_apart():
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0


def shows_peers():
    one, other = socket.socketpair()
    with one, other:
        try:
            os.close(one.getsockopt(socket.SOL_SOCKET, 77))  # SO_PEERPIDFD
        except OSError:
            return False
    return True


def begun(program, name, before=()):
    """A process; with APART it does not see those of this namespace."""
    return subprocess.Popen(
        [*before, sys.executable, "-W", "ignore", "-c", program, name],
        env={**os.environ, "PYTHONPATH": PATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(not can_be_apart(), reason="needs the right to make a PID namespace")
def test_a_consumer_that_its_owner_does_not_see_is_named_so(name):
    owner = begun(OWNS, name, APART)
    try:
        assert owner.stdout.readline() == "open\n"
        with wavetrain.attach(name, 0) as consumer:
            with pytest.raises(wavetrain.InvalidArgument, match=f"consumer 0 is {OTHER}, which"):
                wavetrain.attach(name, 0)
            lost = started(POPS, name)
            assert lost.stdout.readline() == "(4, 5, 6, 7)\n"
            killed(lost)
            with pytest.raises(wavetrain.ShutdownError, match=rf"consumer 1 \({OTHER}\) ended"):
                for batch in consumer:
                    batch.release()
    finally:
        owner.kill()
        owner.communicate()


@pytest.mark.skipif(not can_be_apart(), reason="needs the right to make a PID namespace")
@pytest.mark.skipif(not shows_peers(), reason="needs Linux 6.5")
def test_the_end_of_an_owner_that_is_not_seen_is_noticed_if_a_child_keeps_its_sockets(name):
    owner = begun(OWNS, name)
    assert owner.stdout.readline() == "open\n"
    consumer = begun(TAKES, name, APART)
    assert consumer.stdout.readline() == "popped\n"
    owner.stdin.write("\n")
    owner.stdin.flush()
    child = int(owner.stdout.readline())
    try:
        owner.kill()
        owner.wait()
        lines = consumer.communicate(timeout=60)[0]
        assert f'"{name}" ({OTHER}) has ended' in lines
    finally:
        os.kill(child, signal.SIGKILL)
        owner.stdin.close()
        owner.stdout.close()
