"""What was once given as a handle and is none. The ids are those of the collection of bad inputs."""

HOSTILE = {
    "HANDLE-001": "../../../etc/passwd",
    "HANDLE-002": "/etc/passwd",
    "HANDLE-005": "%252e%252e%252f",
    "HANDLE-006": "..\\..\\windows",
    "HANDLE-009": "id. ",
    "HANDLE-010": "CON",
    "HANDLE-011": "session-abc-evil/x",
    "HANDLE-013": " ",
    "HANDLE-017": "abc\ndef",
    "HANDLE-018": "/proc/self/environ",
    "HANDLE-020": "file:///etc/passwd",
}
