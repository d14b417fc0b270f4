"""xllamacpp, as far as Holdall uses it: a server made from parameters, and where it listens."""

class CpuParams:
    n_threads: int

class CommonParamsModel:
    path: str

class CommonParams:
    model: CommonParamsModel
    cpuparams: CpuParams
    cpuparams_batch: CpuParams
    n_ctx: int
    n_parallel: int
    n_batch: int
    n_ubatch: int
    cache_ram_mib: int
    hostnames: list[str]
    port: int
    api_keys: list[str]
    cors_origins: str
    endpoint_slots: bool
    ui: bool
    offline: bool
    warmup: bool
    verbosity: int

class Server:
    def __init__(self, params: CommonParams) -> None: ...
    @property
    def listening_address(self) -> str: ...
