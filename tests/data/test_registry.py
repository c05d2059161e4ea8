"""Finding, fetching and naming data sets; nothing here touches the network."""

import gzip
import hashlib
import io
import shutil
import struct
import tarfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pinets.data import DATA_SETS, DataError, ImageSet, MissingDataError, data_folder, load, registry
from pinets.data.download import Remote, fetch, obtain_file, obtain_folder
from pinets.data.sets.mnist import IDX_FILES


def md5(raw):
    return f"md5:{hashlib.md5(raw).hexdigest()}"


def cifar_files(count=30):
    record = bytes([0]) + bytes(3072)
    files = {f"data_batch_{number}.bin": record * count for number in range(1, 6)}
    return {**files, "test_batch.bin": record * count, "batches.meta.txt": b"airplane\ncar\n"}


def tar_gz(files, folder=""):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, raw in files.items():
            info = tarfile.TarInfo(f"{folder}{name}")
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return buffer.getvalue()


class Network:
    """Answers for addresses as it is told, and remembers what was asked."""

    def __init__(self, **content):
        self.content = content
        self.asked = []

    def __call__(self, url, target):
        self.asked.append(url)
        name = url.rpartition("/")[2]
        if name not in self.content:
            raise ConnectionError(f"cannot reach {url}")
        Path(target).write_bytes(self.content[name])


OFFLINE = Network()


@pytest.fixture
def cifar_archive(monkeypatch):
    raw = tar_gz(cifar_files(), "cifar-10-batches-bin/")
    archive = replace(DATA_SETS["cifar10"].archive, checksum=md5(raw))
    monkeypatch.setitem(registry.DATA_SETS, "cifar10", replace(DATA_SETS["cifar10"], archive=archive))
    return raw


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != registry.LOCK)


def test_archive_is_fetched_once(tmp_path, cifar_archive):
    network = Network(**{"cifar-10-binary.tar.gz": cifar_archive})
    for _ in range(2):
        assert isinstance(load("cifar10", tmp_path / "new", fetch=network).train, ImageSet)
    assert network.asked == ["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"]
    assert names(tmp_path / "new") == ["cifar-10-batches-bin"]


def test_processes_that_start_together_fetch_once(tmp_path, cifar_archive):
    class Slow(Network):
        def __call__(self, url, target):
            time.sleep(0.2)
            super().__call__(url, target)

    network = Slow(**{"cifar-10-binary.tar.gz": cifar_archive})
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda _: load("cifar10", tmp_path, fetch=network), range(4)))
    assert [len(splits.test) for splits in loaded] == [30] * 4
    assert len(network.asked) == 1


def test_default_fetch_speaks_http(tmp_path, monkeypatch, cifar_archive):
    """The downloader itself, against a server on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            there = self.path.endswith("/there.tar.gz")
            self.send_response(200 if there else 404)
            self.send_header("Content-Length", str(len(cifar_archive) if there else 0))
            self.end_headers()
            if there:
                self.wfile.write(cifar_archive)

        def log_message(self, *arguments):
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        try:
            host = f"http://127.0.0.1:{server.server_port}"
            good = Remote((f"{host}/gone.tar.gz", f"{host}/there.tar.gz"), md5(cifar_archive))
            assert obtain_file(good, tmp_path, fetch).read_bytes() == cifar_archive
            bad = replace(DATA_SETS["cifar10"], archive=Remote((f"{host}/nothing.tar.gz",), "md5:0"))
            monkeypatch.setitem(registry.DATA_SETS, "cifar10", bad)
            with pytest.raises(MissingDataError, match=r"404 Client Error.*nothing\.tar\.gz"):
                load("cifar10", tmp_path / "other")
        finally:
            server.shutdown()
    assert not (tmp_path / "other").exists()
    with pytest.raises(ConnectionError) as caught:  # the server is gone
        fetch(f"{host}/there.tar.gz", tmp_path / "there")
    assert str(caught.value) == f"{host}/there.tar.gz cannot be reached from this machine"


def test_archive_put_there_by_hand_is_unpacked_and_kept(tmp_path, cifar_archive):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive)
    load("cifar10", tmp_path, fetch=OFFLINE)
    assert names(tmp_path) == ["cifar-10-batches-bin", "cifar-10-binary.tar.gz"]


@pytest.mark.parametrize("download", [True, False])
def test_offline_the_error_says_what_to_put_where(tmp_path, download):
    with pytest.raises(MissingDataError) as caught:
        load("cifar10", tmp_path / "data", download=download, fetch=OFFLINE)
    message = str(caught.value)
    assert f"cifar10 is not in {tmp_path / 'data'}" in message
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz (md5:c32a1d4ab5d03f1284b67883e8d87530)" in message
    assert str(tmp_path / "data" / "cifar-10-batches-bin") in message
    assert "PINETS_DATA" in message
    assert ("cannot reach" if download else "was not allowed") in message


@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_looking_without_a_download_leaves_nothing_in_the_data_folder(tmp_path, name):
    with pytest.raises(MissingDataError, match="downloading was not allowed"):
        load(name, tmp_path, download=False)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_put_there_by_hand_needs_no_download(tmp_path, cifar_archive):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive)
    assert len(load("cifar10", tmp_path, download=False).test) == 30


@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_a_mistyped_data_folder_is_not_made(tmp_path, name):
    with pytest.raises(MissingDataError):
        load(name, tmp_path / "mistyped" / "data", fetch=OFFLINE)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_uses_stays(tmp_path):
    def other_process(url, target):
        (tmp_path / "new" / "other").mkdir()
        raise ConnectionError(f"cannot reach {url}")

    with pytest.raises(MissingDataError):
        load("cifar10", tmp_path / "new", fetch=other_process)
    assert names(tmp_path / "new") == ["other"]


DOWNLOADED = [name for name, data_set in DATA_SETS.items() if data_set.archive or data_set.files]


@pytest.mark.parametrize("name", sorted(set(DATA_SETS) - set(DOWNLOADED)))
def test_sets_without_a_download_say_what_to_do(tmp_path, name):
    with pytest.raises(MissingDataError, match=rf"(?s){name} is not in .*(get|put) .*PINETS_DATA"):
        load(name, tmp_path / "none", fetch=OFFLINE)


@pytest.mark.parametrize("name", DOWNLOADED)
def test_every_download_says_what_to_put_where(tmp_path, name):
    with pytest.raises(MissingDataError, match=rf"(?s){name} is not in .*put .*http\S+ \((md5|sha256):[0-9a-f]+\)"):
        load(name, tmp_path, fetch=OFFLINE)


def test_data_of_ones_own_without_their_folder_say_where_they_were_looked_for(tmp_path, monkeypatch):
    """As of a run whose folder of data was moved: it is not the folder of all data sets that is damaged."""
    monkeypatch.setenv("PINETS_DATA", str(tmp_path))
    (tmp_path / "cifar-10-batches-bin").mkdir()
    with pytest.raises(MissingDataError, match=rf"bin holds no images; .* name their folder, .* {tmp_path} is taken"):
        load("labelled_pictures")
    with pytest.raises(DataError, match=r"bin holds no images$"):
        load("labelled_pictures", tmp_path)


@pytest.mark.parametrize("name", ["imagenet", "image_folder", "shards"])
def test_sets_to_bring_say_so(tmp_path, name):
    with pytest.raises(MissingDataError, match=rf"(?s){name} is not in .*put .*train"):
        load(name, tmp_path / "none", fetch=OFFLINE)


def test_imagenet_is_not_looked_for_in_any_folder(tmp_path):
    with pytest.raises(MissingDataError, match=r"image-net\.org"):
        load("imagenet", tmp_path)


def test_wrong_checksum_leaves_nothing(tmp_path):
    network = Network(**{"cifar-10-binary.tar.gz": b"something else"})
    with pytest.raises(
        MissingDataError, match=r"https://\S+cifar-10-binary\.tar\.gz: MD5 hash .* expected md5:c32a1d4a\w+"
    ):
        load("cifar10", tmp_path, fetch=network)
    assert names(tmp_path) == []


def test_damaged_archive_of_the_user_is_named_and_kept(tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"cut sho")
    with pytest.raises(MissingDataError, match=r"cifar-10-binary\.tar\.gz: its md5 is"):
        load("cifar10", tmp_path, fetch=OFFLINE)
    assert (tmp_path / "cifar-10-binary.tar.gz").read_bytes() == b"cut sho"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_interrupted_download_leaves_nothing(tmp_path, error):
    def interrupted(url, target):
        Path(target).write_bytes(b"half of it")
        raise error

    with pytest.raises((KeyboardInterrupt, MissingDataError)) as caught:
        load("cifar10", tmp_path, fetch=interrupted)
    assert caught.type is KeyboardInterrupt or "No space left" in str(caught.value)
    assert names(tmp_path) == []


def test_interrupted_unpacking_leaves_nothing(tmp_path, cifar_archive, monkeypatch):
    def interrupted(archive, folder, **options):
        (Path(folder) / "cifar-10-batches-bin").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "unpack_archive", interrupted)
    network = Network(**{"cifar-10-binary.tar.gz": cifar_archive})
    with pytest.raises(KeyboardInterrupt):
        load("cifar10", tmp_path, fetch=network)
    assert names(tmp_path) == ["cifar-10-binary.tar.gz"]  # complete, and used the next time


def test_files_are_fetched_one_by_one(tmp_path, monkeypatch):
    content = {}
    for name, sizes in zip(IDX_FILES, [(20, 2, 2), (20,), (10, 2, 2), (10,)], strict=True):
        header = bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)
        body = bytes(sizes[0]) if len(sizes) == 1 else bytes(sizes[0] * 4)
        content[f"{name}.gz"] = gzip.compress(header + body)
    files = tuple(replace(remote, checksum=md5(content[remote.name])) for remote in DATA_SETS["mnist"].files)
    monkeypatch.setitem(registry.DATA_SETS, "mnist", replace(DATA_SETS["mnist"], files=files))
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / IDX_FILES[1]).write_bytes(gzip.decompress(content[f"{IDX_FILES[1]}.gz"]))
    network = Network(**content)
    splits = load("mnist", tmp_path, fetch=network)
    assert len(splits.test) == 10
    assert [url.rpartition("/")[2] for url in network.asked] == [f"{IDX_FILES[i]}.gz" for i in (0, 2, 3)]


def test_the_next_address_is_tried(tmp_path):
    remote = Remote(("http://first/file", "http://second/file"), md5(b"right"))
    answers = {"http://first/file": b"wrong", "http://second/file": b"right"}
    path = obtain_file(remote, tmp_path, lambda url, target: target.write_bytes(answers[url]))
    assert path.read_bytes() == b"right"


@pytest.mark.parametrize("inside", ["", "./", "set/"])
@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_archives_with_and_without_a_folder_of_their_own(tmp_path, inside, kind):
    files = {"yes/a.wav": b"a", "list.txt": b"b"}
    if kind == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, raw in files.items():
                archive.writestr(inside + name, raw)
        raw = buffer.getvalue()
    else:
        raw = tar_gz(files, inside)
    remote = Remote((f"http://host/set.{kind}",), md5(raw))
    obtain_folder(remote, tmp_path / "set", lambda url, target: target.write_bytes(raw))
    assert names(tmp_path) == ["set"]
    assert {str(p.relative_to(tmp_path / "set")): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files


def test_archive_that_reaches_outside_is_refused(tmp_path):
    raw = tar_gz({"../../evil.txt": b"evil"})
    remote = Remote(("http://host/set.tar.gz",), md5(raw))
    with pytest.raises(tarfile.OutsideDestinationError):
        obtain_folder(remote, tmp_path / "data" / "set", lambda url, target: target.write_bytes(raw))
    assert not list(tmp_path.rglob("evil.txt"))


def test_where_sets_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PINETS_DATA", str(tmp_path / "from_environment"))
    assert data_folder(tmp_path / "given") == tmp_path / "given"
    assert data_folder() == tmp_path / "from_environment"
    monkeypatch.delenv("PINETS_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_folder().parts[-2:] == ("pinets", "data")
    assert data_folder().is_relative_to(tmp_path)
    assert data_folder("~/sets") == tmp_path / "sets"


@pytest.mark.parametrize(
    "name, nearest", [("cifar-10", "cifar10"), ("fashionmnist", "fashion_mnist"), ("speech_comands", "speech_commands")]
)
def test_unknown_name_suggests_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=rf"no data set {name!r}; did you mean '{nearest}"):
        load(name)


def test_unknown_option_suggests_the_nearest(tmp_path):
    with pytest.raises(TypeError, match="cifar10 has no option 'sed'; did you mean 'seed'"):
        load("cifar10", tmp_path, sed=1)


@pytest.mark.parametrize("validation", [0, 1, 2, float("nan")])
def test_a_fraction_out_of_range_is_refused_before_anything_is_fetched(tmp_path, validation):
    network = Network()
    with pytest.raises(ValueError, match=f"validation must lie between 0 and 1, got {validation}"):
        load("mnist", tmp_path, fetch=network, validation=validation)
    assert not network.asked


def test_file_in_the_way_is_an_error_of_ours(tmp_path):
    (tmp_path / "data").write_text("not a folder")
    with pytest.raises(MissingDataError, match="cifar10 is not in"):
        load("cifar10", tmp_path / "data", fetch=OFFLINE)


def test_incomplete_folder_names_its_file(tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    for name, raw in cifar_files().items():
        if name != "data_batch_4.bin":
            (tmp_path / "cifar-10-batches-bin" / name).write_bytes(raw)
    with pytest.raises(MissingDataError, match=r"cifar-10-batches-bin/data_batch_4\.bin is missing"):
        load("cifar10", tmp_path, fetch=OFFLINE)


def test_data_errors_are_value_errors_and_missing_files_are_file_errors():
    assert issubclass(DataError, ValueError)
    assert issubclass(MissingDataError, FileNotFoundError)
