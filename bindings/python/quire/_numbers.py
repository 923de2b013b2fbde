"""The numbers of quire's headers. Made by abi/generate.py from abi/include/quire: change the headers, not this file."""
from enum import IntEnum, IntFlag

ABI_VERSION = 0x2


class Code(IntEnum):
    """The result of a call: `Error.code`."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    INCOMPATIBLE_ABI = 64
    NOT_READY = 65
    NOT_REPRESENTABLE = 66


class DeviceType(IntEnum):
    """Kinds of devices: DLPack's numbers."""

    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    ROCM = 10
    ROCM_HOST = 11


class LogLevel(IntEnum):
    """Log levels."""

    TRACE = 0
    DEBUG = 1
    INFO = 2
    WARN = 3
    ERROR = 4
    OFF = 5


class LayerKind(IntEnum):
    """Kind of one layer cache: which tokens are live, and which are stored."""

    NONE = 0
    FULL = 1
    SLIDING_WINDOW = 2
    CHUNKED = 3
    MLA = 4
    STATE = 5
    CROSS = 6
    ENCODER_ONLY = 7
    INDEXER = 8


class Codec(IntEnum):
    """How the rows of a token cache are encoded."""

    STRIDED = 0
    RECORD = 1
    BLOCK_SPLIT = 2
    TILED = 3
    SHUFFLED = 4
    COLUMN_K = 5
    AMX = 6


class StateKind(IntEnum):
    """The recurrence of a state layer."""

    GENERIC = 0
    MAMBA1 = 1
    MAMBA2 = 2
    GDN = 3
    KDA = 4
    LIGHTNING = 5
    SHORT_CONV = 6


class StateMode(IntEnum):
    """How states take part in prefix reuse (policy vllm)."""

    DEFAULT = 0
    NONE = 1
    ALIGN = 2
    ALL = 3


class KVScales(IntEnum):
    """Where the scales of kv_dtype are."""

    OUTSIDE = 0
    ROW = 1
    SCALES_16 = 2


class FieldRole(IntEnum):
    """The content of a field of a codec."""

    ELEMENTS = 0
    SCALES = 1
    TAIL = 2


class CompatLevel(IntEnum):
    """How the bytes of one config relate to those of another one."""

    IDENTICAL = 0
    REARRANGED = 1
    CONVERTIBLE = 2
    INCOMPATIBLE = 3


class Miss(IntEnum):
    """Why a prefix was not found, or not completely."""

    NONE = 0
    UNKNOWN_PREFIX = 1
    EVICTED = 2
    NO_STATE = 3
    WINDOW_HOLE = 4
    BELOW_UNIT = 5
    DISABLED = 6


class Refusal(IntEnum):
    """Why an entry was refused: `reason` of `Step.results`."""

    NONE = 0
    NO_ROOM = 1
    NEVER_FITS = 2
    STEP_FULL = 3
    TOO_LONG = 4
    STALE = 5
    TWICE = 6
    LOADING = 7
    NO_TOKENS = 8
    NOT_EMPTY = 9
    NO_PROMPT = 10
    POSITION = 11
    LOOK_AHEAD = 12


class FillKind(IntEnum):
    """The arrays that `Step.fill` writes."""

    TABLE = 1
    TABLE_INDPTR = 2
    TABLE_INDICES = 3
    SLOTS = 4
    STATE_READ = 5
    STATE_WRITE = 6
    KV_LEN = 7
    QUERY_INDPTR = 8
    POSITIONS = 9
    RAW_TABLE = 10
    STATE_WRITE_INDPTR = 11
    STATE_WRITES = 12
    STATE_WRITE_ENDS = 13
    UPDATE_INDPTR = 14
    UPDATE_FIRST = 15
    UPDATE_INDICES = 16
    SLOTS_INDPTR = 17


class ConnectorState(IntEnum):
    """Whether a connector works now."""

    UP = 0
    FULL = 1
    READ_ONLY = 2
    DOWN = 3


class FetchOutcome(IntEnum):
    """How a fetch ended."""

    DONE = 1
    NOTHING = 2
    SLOWER = 3
    NO_ROOM = 4
    LATE = 5
    FAILED = 6
    CANCELLED = 7


class OfferField(IntEnum):
    """What an offer says of itself, in the order in which its reader compares it."""

    VERSION = 1
    WEIGHTS = 2
    LAYERS = 3
    UNIT_TOKENS = 4
    RANKS = 5
    GROUPS = 6
    LOOK_AHEAD = 7
    SALT = 8
    ADAPTER = 9
    EPOCH = 10
    END_TOKEN = 11
    PROMPT = 12
    BLOCK_TOKENS = 13
    ENCODER_TOKENS = 14


class HashAlgorithm(IntEnum):
    """Hash function and encoding of the names of blocks."""

    SHA256_CBOR = 1
    XXHASH_CBOR = 2
    SHA256_PICKLE = 3
    XXHASH_PICKLE = 4


class Unit(IntFlag):
    """Which units a `Tier` writes: `reasons`. They can be combined."""

    COMMITTED = 1
    HIT = 2
    FINISHED = 4
    EVICTING = 8


class EventType(IntEnum):
    """What happened to blocks."""

    STORED = 1
    REMOVED = 2
    CLEARED = 3


class RuntimeFlag(IntFlag):
    """Flags of `Runtime`."""

    NO_ENV = 0x1
    TRUST_PATHS = 0x2


class LayerFlag(IntFlag):
    """Flags of `Layer`."""

    DRAFT = 0x1
    SINK_LOGITS = 0x2


class PlanFlag(IntFlag):
    """Flags of `Config`."""

    NO_PREFIX_REUSE = 0x1
    CONTIGUOUS = 0x2
    ONE_TABLE = 0x4
    FIT_LENGTH = 0x8


class VllmFlag(IntFlag):
    """Flags of `Config` that only policy vllm reads."""

    UPSTREAM = 0x1
    TRANSFERS = 0x2
    ROWS = 0x4


class CacheFlag(IntFlag):
    """Flags of `Cache`."""

    NO_PREFIX_REUSE = 0x1
    STATES_IN_PLACE = 0x2
    STATES_AT_BLOCKS = 0x4
    STRICT_LRU = 0x10


class Keep(IntFlag):
    """Which states become checkpoints: `keep_states` of `Cache`."""

    EVERY = 0x1
    CHUNK_END = 0x2
    PROMPT_END = 0x4
    JUNCTION = 0x8
    ASKED = 0x10


class SequenceFlag(IntFlag):
    """Flags of `Cache.create_sequence`."""

    NO_MATCH = 0x1
    NO_PUBLISH = 0x2


class Entry(IntFlag):
    """`flags` of the entries of `Cache.reserve`."""

    MATCH = 0x1
    PROMPT_END = 0x2
    NO_STOP = 0x4
    KEEP_STATE = 0x8


class Result(IntFlag):
    """`flags` of `Step.results`."""

    CHUNK_STOP = 0x1
    NEVER_FITS = 0x2


class ConnectorFlag(IntFlag):
    """`flags` of `ConnectorInfo`: what a connector can do."""

    PERSISTENT = 0x1
    SHARED = 0x2
    REGISTERS = 0x4
    RANGES = 0x8
    STAGES = 0x10
