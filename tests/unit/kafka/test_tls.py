"""What is wrong with certificates: of a server that is none of Kafka's, of our own files, and by what either says."""

import gc
import socket
import ssl
import threading
from contextlib import closing, contextmanager, suppress
from datetime import timedelta

import pytest

from deploy.broker.authority import Authority
from streamfl.errors import UsageError
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.settings import KafkaSettings
from streamfl_connectors.kafka.tls import fault, is_spoken_by, require_usable

FAILED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def server(key):
    """A server on loopback that does nothing but shake hands, with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            with suppress(OSError):  # the test has ended
                while True:
                    with (
                        suppress(ssl.SSLError),
                        listening.accept()[0] as one,
                        context.wrap_socket(one, server_side=True),
                    ):
                        pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("issued", "told"),
    [
        ({"lasts": timedelta(hours=-1)}, "the brokers' certificate has expired; renew it on the brokers"),
        (
            {"address": "127.0.0.9"},
            "the brokers' certificate is not for 127.0.0.1; name the brokers in bootstrap_servers",
        ),
    ],
    ids=["expired", "of another machine"],
)
def test_a_server_that_may_not_be_trusted_is_told_with_the_reason(authority, issued, told):
    with server(authority.issue("server", **issued)) as address:
        settings = {
            "bootstrap_servers": address,
            "security_protocol": "SSL",
            "ssl_cafile": str(authority.certificate),
        }
        connection = Connection(KafkaSettings.model_validate(settings | {"bootstrap_timeout_ms": 600}))
        with pytest.raises(UsageError) as raised, closing(connection.admin()):
            pass
    assert str(raised.value).startswith(f"{address}: {told}")
    gc.collect()  # kafka-python closes no socket whose handshake failed


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            f"{FAILED}: certificate is not yet valid",
            "not valid yet; correct",
        ),
        (f"{FAILED}: certificate revoked (_ssl.c:1)", "was revoked"),
        (
            f"{FAILED}: unable to get local issuer certificate (_ssl.c:1)",
            "is not trusted (unable to get local issuer certificate); name in ssl_cafile",
        ),
        (
            f"{FAILED}: Hostname mismatch, certificate is not valid for 'b.example'. (_ssl.c:1)",
            "is not for b.example",
        ),
        ("[SSL: SSLV3_ALERT_CERTIFICATE_UNKNOWN] sslv3 alert certificate unknown (_ssl.c:1)", "brokers refuse the"),
        ("[SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate (_ssl.c:1)", "brokers refuse the"),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:1)", "brokers refuse the"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required", "brokers refuse the"),
        ("Invalid frame length: 352518912", "the brokers speak TLS"),
    ],
)
def test_what_either_side_says_about_a_certificate_is_explained(said, told):
    assert told in fault(OSError(said))
    assert "; " in fault(OSError(said))


@pytest.mark.parametrize("said", ["111 ECONNREFUSED", "socket disconnected", "Invalid frame length: 2147483647"])
def test_errors_that_are_not_about_certificates_are_not_explained_as_such(said):
    assert fault(OSError(said)) is None


class TestFiles:
    def told(self, **settings):
        with pytest.raises(UsageError) as raised:
            require_usable({"security_protocol": "SSL"} | settings)
        return str(raised.value)

    @pytest.fixture
    def junk(self, tmp_path):
        path = tmp_path / "junk"
        path.write_text("sesame")
        return str(path)

    def test_certificate_files_that_fit_are_accepted(self, authority):
        key = str(authority.issue("locked", password="sesame"))
        told = {"ssl_cafile": str(authority.certificate), "ssl_certfile": key, "ssl_password": "sesame"}
        require_usable({"security_protocol": "SASL_SSL"} | told)

    def test_certificate_files_are_not_read_without_tls(self):
        require_usable({"ssl_cafile": "/no/such/file"})

    @pytest.mark.parametrize("setting", ["ssl_cafile", "ssl_certfile"])
    def test_missing_certificate_files_are_reported_by_their_setting(self, setting):
        found = f"[kafka] {setting}: its file cannot be read: No such file or directory; correct it"
        assert self.told(**{setting: "/no/such/file"}) == found

    def test_a_file_without_a_certificate_is_reported_by_its_setting(self, junk):
        assert self.told(ssl_cafile=junk).startswith("[kafka] ssl_cafile: its file has no certificate in PEM form; ")
        assert self.told(ssl_certfile=junk).startswith(
            "[kafka] ssl_certfile: no certificate with its key, in PEM form; "
        )

    def test_an_encrypted_key_that_no_password_opens_is_reported(self, authority):
        key = str(authority.issue("locked", password="sesame"))
        assert self.told(ssl_certfile=key).startswith(
            "[kafka] ssl_password: the key is encrypted, and there is no password for it"
        )
        said = self.told(ssl_certfile=key, ssl_password="wrong-one")
        assert said.startswith("[kafka] ssl_password: it does not open the key") and "wrong-one" not in said

    def test_a_key_of_another_certificate_is_reported(self, authority):
        one, other = (str(authority.issue(name)) for name in ("one", "other"))
        assert self.told(ssl_certfile=one, ssl_keyfile=other).startswith(
            "[kafka] ssl_keyfile: the key is not that of"
        )

    def test_a_certificate_that_has_expired_is_reported(self, authority):
        key = str(authority.issue("old", lasts=timedelta(hours=-1)))
        assert self.told(ssl_certfile=key).startswith("[kafka] ssl_certfile: the certificate expired on 20")


def test_an_authority_stays_the_same_and_its_keys_are_nobody_elses(authority):
    again = Authority(authority.certificate.parent)
    assert again.certificate.read_bytes() == authority.certificate.read_bytes()
    key = again.issue("user")
    assert key.stat().st_mode & 0o077 == 0
    require_usable({"security_protocol": "SSL", "ssl_cafile": str(authority.certificate), "ssl_certfile": str(key)})


def test_a_server_is_asked_whether_it_speaks_tls_and_one_that_does_not_or_is_not_there_does_not(authority):
    with server(authority.issue("broker", address="127.0.0.1")) as speaking:
        assert is_spoken_by(speaking)
        assert is_spoken_by(["127.0.0.1:1", speaking])
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def hang_up():
            silent.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        assert not is_spoken_by(f"127.0.0.1:{silent.getsockname()[1]}")
    assert not is_spoken_by("127.0.0.1:1")
