#pragma once

/* The C interface of Kiln, for every language that can call C. In C11:
 *
 *   kiln_engine* engine = NULL;
 *   if (kiln_engine_create(NULL, &engine) != KILN_OK) return puts(kiln_last_error_message());
 *   const kiln_arg args[] = {kiln_tensor("x", &x), kiln_tensor("w", &w), kiln_tensor("out", &out)};
 *   if (kiln_launch(engine, "n128k512_gemm_bf16", args, 3, stream, NULL) != KILN_OK) ...
 *
 * where x, w and out are DLTensors. Conventions, which hold for every function below:
 *
 *  1. A function that can fail returns a kiln_status: KILN_OK, which is 0, or one KILN_ERROR_ code.
 *     kiln_last_error_message() says more of the last failure on the calling thread.
 *  2. Nothing is thrown, and nothing is printed. On failure, outputs are as they were, but where a
 *     function says otherwise.
 *  3. Handles (kiln_engine, kiln_plan, kiln_prefetch) are opaque. Who created one destroys it,
 *     with the function of its name; destroying NULL does nothing. An engine's plans may be
 *     destroyed after it, and are KILN_ERROR_NOT_LOADED from then on; a prefetch may be asked for
 *     ever.
 *  4. A struct that is passed by pointer begins with struct_size, which its owner sets to
 *     sizeof(the struct); KILN_INIT(struct) does that and zeroes the rest. Such structs grow at
 *     their ends. An older caller's struct is taken as if it ended in zeros; a newer caller's is
 *     refused when it uses a field that this library does not know. Of an output, as much is
 *     written as the caller has room for.
 *  5. A struct that stands in arrays has no struct_size and never grows; what is called reserved
 *     in it must be zero.
 *  6. Zero, KILN_DEFAULT, or NULL in a field always means the default. An options pointer may be
 *     NULL. Any other pointer may only be NULL where that is said, and is refused otherwise.
 *  7. Strings are UTF-8 and end in a zero byte. Those that come in are copied; those that go out
 *     belong to Kiln and live as long as it is said beside them.
 *  8. Any function may be called from any thread at any time, on one handle from several at once,
 *     but for creating and destroying it.
 *  9. Tensors are the caller's: a DLTensor must live until the call returns, its memory until the
 *     launched work has finished. A call's CUDA context must be current on the calling thread.
 * 10. Callbacks may come from any thread, also several at a time where that is said. They must
 *     return normally: no exception, no longjmp, and no call that destroys what calls them.
 * 11. One engine serves every device of the process, one context of each: the one that was current
 *     at the first call with tensors of that device. A call's stream must belong to it; the driver
 *     refuses any other.
 * 12. A process that is forked from one in which an engine has used the driver cannot use CUDA;
 *     there everything that needs the driver is KILN_ERROR_DRIVER_UNAVAILABLE. Fork before, or exec
 *     after. Once a kernel has failed on the device, every CUDA call in the process fails, and each
 *     message says so: the process must end.
 * 13. What is declared here keeps its meaning as docs/versions.md promises. */

/* A C header stays C when C++ reads it, and C's names are its own.
 * NOLINTBEGIN(modernize-deprecated-headers,readability-identifier-naming) */
#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(KILN_API)
#define KILN_API __attribute__((visibility("default")))
#elif !defined(KILN_API)
#define KILN_API
#endif

/* Zeroes a sized struct and sets its size: kiln_counters counters = KILN_INIT(kiln_counters); */
#ifdef __cplusplus
#define KILN_INIT(type)              \
  [] {                               \
    type zero{};                     \
    zero.struct_size = sizeof(type); \
    return zero;                     \
  }()
#else
#define KILN_INIT(type) \
  { .struct_size = sizeof(type) }
#endif

/* ---------------------------------------------------------------------------------------------
 * Errors and versions */

typedef int32_t kiln_status;

/* Codes are appended and never renumbered. */
enum {
  KILN_OK = 0,
  KILN_ERROR_INVALID_ARGUMENT = 1,     /* Outside an op's contract, or of these functions. */
  KILN_ERROR_UNKNOWN_OP = 2,           /* No op of that name is registered. */
  KILN_ERROR_DUPLICATE_OP = 3,         /* An op of that name is registered already. */
  KILN_ERROR_UNSUPPORTED_TARGET = 4,   /* The op does not serve this device. */
  KILN_ERROR_COMPILER_UNAVAILABLE = 5, /* No usable NVRTC, and something must be compiled. */
  KILN_ERROR_COMPILE_FAILED = 6,       /* The message carries NVRTC's whole log. */
  KILN_ERROR_DRIVER_UNAVAILABLE = 7,   /* No usable CUDA driver, or no device. */
  KILN_ERROR_DRIVER_ERROR = 8,         /* The message names the driver call and its code. */
  KILN_ERROR_IO = 9,                   /* A file that the caller named cannot be used. */
  KILN_ERROR_INTERNAL = 10,            /* A broken invariant, or no memory. */
  KILN_ERROR_COMPILE_FORBIDDEN = 11,   /* In no cache, and the policy forbids compiling. */
  KILN_ERROR_COMPILER_LOST = 12,       /* The compiler crashed or hung, twice in a row. */
  KILN_ERROR_CANCELLED = 13,           /* Given up unfinished, because somebody asked for that. */
  KILN_ERROR_NOT_LOADED = 14,          /* Missing while its stream is captured, or unloaded. */
  KILN_ERROR_NOT_STORED = 15           /* Compiled, and no cache directory could take it. */
};

/* What the last failure on this thread was, in words: what was asked, what was found, what can be
 * done. Empty before the first one; a success leaves it. Valid until the next failure on this
 * thread. */
KILN_API const char* kiln_last_error_message(void);

/* "invalid_argument", ... and "ok"; "unknown" for what is no code. Valid for ever. */
KILN_API const char* kiln_status_name(kiln_status status);

/* The library's version as 10000 * major + 100 * minor + patch, whatever header the caller has:
 * compare with KILN_VERSION_NUMBER. This function will exist in every version. */
#define KILN_VERSION_NUMBER \
  (10000 * KILN_VERSION_MAJOR + 100 * KILN_VERSION_MINOR + KILN_VERSION_PATCH)
KILN_API int32_t kiln_version(void);

/* ---------------------------------------------------------------------------------------------
 * Engines */

typedef struct kiln_engine kiln_engine;
typedef struct kiln_plan kiln_plan;
typedef struct kiln_prefetch kiln_prefetch;

/* A CUstream or cudaStream_t; NULL is the legacy default stream. */
typedef void* kiln_stream;

/* What is on, off, or as the default says. */
enum { KILN_DEFAULT = 0, KILN_ON = 1, KILN_OFF = 2 };

/* kiln_engine_options.jit: what happens when a kernel is needed that is in no cache. */
enum {
  KILN_JIT_DEFAULT = 0, /* KILN_JIT, else allow. */
  KILN_JIT_ALLOW = 1,
  KILN_JIT_WARN = 2,  /* It is compiled, and a warning names it. */
  KILN_JIT_FORBID = 3 /* KILN_ERROR_COMPILE_FORBIDDEN. NVRTC is neither sought nor opened, and any
                         toolchain's entry will do, from every layer. */
};

/* kiln_engine_options.capture_misses: what happens when a stream is being captured and a call on it
 * needs a kernel that is not loaded. Drivers before 12.3 cannot load then, so with them it is
 * always an error. */
enum {
  KILN_CAPTURE_MISSES_DEFAULT = 0, /* KILN_CAPTURE_MISSES, else load. */
  KILN_CAPTURE_MISSES_LOAD = 1,    /* It is compiled and loaded; a warning names it. */
  KILN_CAPTURE_MISSES_ERROR = 2    /* KILN_ERROR_NOT_LOADED, and the capture is not spoiled. */
};

/* Levels of log lines; 0, of kiln_engine_options.log_level, is KILN_LOG_WARNING. */
enum { KILN_LOG_DEBUG = 1, KILN_LOG_INFO = 2, KILN_LOG_WARNING = 3, KILN_LOG_ERROR = 4 };

/* Receives one finished line without a newline, valid during the call only. Several threads may
 * call at a time. */
typedef void (*kiln_log_callback)(int32_t level, const char* message, void* user);

/* A limit that does not limit, where 0 is the default. */
#define KILN_NO_LIMIT UINT64_MAX

/* Read once, by kiln_engine_create. A field that is left 0 falls back to the environment variable
 * named beside it, which is also read only then. */
typedef struct kiln_engine_options {
  size_t struct_size;
  /* Writable cache root, an absolute path. Else KILN_CACHE_DIR (absolute too),
   * $XDG_CACHE_HOME/kiln, $HOME/.cache/kiln. It must be a directory of this user; one that is named
   * here or by KILN_CACHE_DIR may also belong to root, be writable by a group of the process or,
   * where the process is root, belong to anybody, with one warning. Another is not used. An
   * empty one is refused. */
  const char* cache_root;
  /* Directories of prebuilt entries and pack files (`kiln pack create`), asked in order after the
   * root and never written. Absolute paths; each must belong to root or this user and not be
   * writable by everybody, or be a pack with a valid signature. Any other is left out with a
   * warning; where nothing lies, a directory may come, and until then there is nothing to find.
   * Else KILN_CACHE_LAYERS, with colons between them. */
  const char* const* layers;
  size_t layer_count;
  /* Public key files (`kiln pack keygen`). With any, only packs signed by one of the keys are used,
   * and none at all while one of the files cannot be read or is writable by everybody. Else
   * KILN_TRUSTED_KEYS, with colons between them. */
  const char* const* trusted_keys;
  size_t trusted_key_count;
  /* Most bytes of disk that the root's entries may take, or KILN_NO_LIMIT; when there are more, the
   * least recently used go. Else KILN_CACHE_MAX_BYTES, which takes a suffix K, M or G (of 1024). */
  uint64_t cache_max_bytes;
  /* How long an entry stays without being used, to about a day, or KILN_NO_LIMIT. Else
   * KILN_CACHE_MAX_AGE, in seconds or with a suffix h or d. */
  uint64_t cache_max_age_seconds;
  /* KILN_ON: everything in a named root is writable by the root's group, whatever the umask. Else
   * KILN_CACHE_GROUP=1. */
  int32_t cache_group_shared;
  /* KILN_ON: uses a named root that everybody can write, and with it what anybody put there. Else
   * KILN_CACHE_ALLOW_WORLD_WRITABLE=1. */
  int32_t cache_allow_world_writable;
  /* KILN_ON: layers serve cubins of the toolchain that is found here only. Off by default. */
  int32_t exact_toolchain;
  /* KILN_JIT_... Else KILN_JIT: allow, warn or forbid. */
  int32_t jit;
  /* Path of libnvrtc.so. Else KILN_NVRTC, the loader's path, the usual folders of toolkits. */
  const char* nvrtc;
  /* Path of libcuda.so.1. Else the loader's path. */
  const char* driver;
  /* Path of the worker's executable, kiln-compile-worker. Else KILN_COMPILE_WORKER, else beside the
   * library. */
  const char* compile_worker;
  /* KILN_ON: compiles in this process. Otherwise in worker processes, which a crash or a hang of
   * NVRTC ends instead of this one, and which run side by side; where none can be started, in this
   * process after all, with a warning. Else KILN_COMPILE_IN_PROCESS=1. */
  int32_t compile_in_process;
  /* Most compiles at the same time. Else KILN_COMPILE_JOBS, else as many as this process has cores
   * and, at 1 GiB each, memory. */
  int32_t compile_jobs;
  /* A compile in a worker that takes longer is given up: the worker is killed, and the compile
   * tried once more in another one. 0: 300. */
  int64_t compile_timeout_seconds;
  /* How long a call that misses waits at most while another process on this machine compiles the
   * same kernel, before it compiles for itself. A process that was killed is not waited for, and
   * one that has stopped for 20 s at most. 0: 600; -1: never waits. */
  int64_t compile_wait_seconds;
  /* A JSON file to keep the set of kernels in that this engine really launches, merged with what it
   * holds: see `kiln prebuild --manifest` and kiln_warmup_request. "%p" in it is the process id.
   * Else KILN_RECORD. */
  const char* record;
  /* A file to append events to (compiles, cache lookups, loads), in Chrome's trace format. Else
   * KILN_TRACE. */
  const char* trace;
  /* Programmatic dependent launch where an op and the device support it: KILN_ON or KILN_OFF. Else
   * KILN_PDL=0 turns it off. */
  int32_t pdl;
  /* KILN_ON: the checking mode, for finding what is wrong. At each launch, also a plan's: the op's
   * contract with exact overlap checks of strided tensors, and driver checks of pointers; a line at
   * KILN_LOG_INFO with op, arguments and stream; and, unless the stream is being captured, a wait
   * for each kernel, so that one that fails is named. Else KILN_CHECK=1. */
  int32_t check;
  kiln_log_callback log;  /* NULL: no lines. */
  void* log_user;         /* Handed to it; must live as long as the engine. */
  int32_t log_level;      /* From which on. 0: KILN_LOG_WARNING. */
  int32_t capture_misses; /* KILN_CAPTURE_MISSES_... Else KILN_CAPTURE_MISSES: load or error. */
} kiln_engine_options;

/* Needs neither NVRTC nor a driver until something must be compiled or launched. */
KILN_API kiln_status kiln_engine_create(const kiln_engine_options* options, kiln_engine** engine);

/* Ends compiles under way. Kernels that were loaded stay so until the process ends. */
KILN_API void kiln_engine_destroy(kiln_engine* engine);

/* ---------------------------------------------------------------------------------------------
 * Calls */

enum { KILN_ARG_ABSENT = 0, KILN_ARG_TENSOR = 1, KILN_ARG_INTEGER = 2, KILN_ARG_REAL = 3 };

/* One argument of a call. Arguments have names, and come in any order; or all have none, and come
 * in the op's order. What is left out, and a tensor that is NULL, is absent. */
typedef struct kiln_arg {
  const char* name;
  int32_t kind; /* KILN_ARG_... */
  int32_t reserved;
  union {
    const DLTensor* tensor;
    int64_t integer; /* Also for bool. */
    double real;
  } value;
} kiln_arg;

/* DLTensor.dtype.code of what DLPack has only since 1.0 and 1.1, for an older dlpack.h. All are of
 * 8 bits and one lane; kDLBool, kDLFloat8_e4m3fn and kDLFloat8_e8m0fnu there. */
enum { KILN_DL_BOOL = 6, KILN_DL_FLOAT8_E4M3FN = 10, KILN_DL_FLOAT8_E8M0FNU = 14 };

static inline kiln_arg kiln_tensor(const char* name, const DLTensor* tensor) {
  kiln_arg arg = {name, KILN_ARG_TENSOR, 0, {NULL}};
  arg.value.tensor = tensor;
  return arg;
}

static inline kiln_arg kiln_integer(const char* name, int64_t integer) {
  kiln_arg arg = {name, KILN_ARG_INTEGER, 0, {NULL}};
  arg.value.integer = integer;
  return arg;
}

static inline kiln_arg kiln_real(const char* name, double real) {
  kiln_arg arg = {name, KILN_ARG_REAL, 0, {NULL}};
  arg.value.real = real;
  return arg;
}

/* kiln_launch_options.memory_sync_domain; see the CUDA guide. */
enum { KILN_SYNC_DOMAIN_DEFAULT = 0, KILN_SYNC_DOMAIN_REMOTE = 1 };

typedef struct kiln_launch_options {
  size_t struct_size;
  void* workspace; /* Device memory, 256-byte aligned, at least kiln_workspace_bytes. */
  size_t workspace_bytes;
  int32_t pdl;             /* KILN_OFF: no kernel starts before its predecessor has finished. */
  int32_t constants_ready; /* KILN_OFF: a kernel of this stream may have just written a constant
                              argument. */
  int32_t serialize;       /* KILN_ON: the first kernel waits for its predecessor to finish. Those
                              after it, of an op of several, still start early. */
  int32_t has_priority;    /* 1: `priority` counts, and not the stream's. */
  int32_t priority;        /* As cuCtxGetStreamPriorityRange counts; less is more urgent. */
  int32_t memory_sync_domain; /* KILN_SYNC_DOMAIN_... */
} kiln_launch_options;

/* Checks the call against the op's contract and launches its kernels on `stream`. The first call
 * of a kind finds its kernels in the cache or compiles them, and loads them; later ones only
 * launch, with one driver call per kernel, and allocate nothing. A call that has nothing to do
 * (m = 0) launches nothing, but is checked, and needs a driver, like any other. */
KILN_API kiln_status kiln_launch(kiln_engine* engine, const char* op, const kiln_arg* args,
                                 size_t arg_count, kiln_stream stream,
                                 const kiln_launch_options* options);

/* Bytes that kiln_launch needs as kiln_launch_options.workspace for these arguments, whose data
 * pointers count; a plan, which needs none, says it too. Not always more for more rows. */
KILN_API kiln_status kiln_workspace_bytes(kiln_engine* engine, const char* op, const kiln_arg* args,
                                          size_t arg_count, size_t* bytes);

/* Whether contract and policy allow this call, and the device where there is a driver to ask:
 * *usable is 1, or 0 and *reason says why. A bad call is an answer, not a failure; only an op that
 * is not there, or an argument that it does not have, is one. Data pointers count. `reason` may be
 * NULL; *reason is empty when usable, and valid until this thread's next call of this function. */
KILN_API kiln_status kiln_can_use(kiln_engine* engine, const char* op, const kiln_arg* args,
                                  size_t arg_count, int32_t* usable, const char** reason);

/* ---------------------------------------------------------------------------------------------
 * Plans: a call resolved once, for launching it many times */

/* Finds or compiles and loads what a call of these shapes needs in the current context. Looks at
 * everything but the data pointers, which may be NULL. */
KILN_API kiln_status kiln_plan_create(kiln_engine* engine, const char* op, const kiln_arg* args,
                                      size_t arg_count, kiln_plan** plan);
KILN_API void kiln_plan_destroy(kiln_plan* plan);

/* Packs parameters and makes one driver call per kernel, nothing else. The arguments are those of
 * kiln_plan_create, as many and in the same order; their names are not looked at. Only data
 * pointers, strides and scalars may differ, which is checked where kiln_engine_options.check is on
 * and trusted otherwise. One array of kiln_arg, and the DLTensors that it refers to, may serve
 * every launch. */
KILN_API kiln_status kiln_plan_launch(const kiln_plan* plan, const kiln_arg* args, size_t arg_count,
                                      kiln_stream stream, const kiln_launch_options* options);

/* Bytes that kiln_plan_launch needs as kiln_launch_options.workspace; 0 once it can no longer be
 * launched. */
KILN_API kiln_status kiln_plan_workspace_bytes(const kiln_plan* plan, size_t* bytes);

/* ---------------------------------------------------------------------------------------------
 * Getting ready */

/* A call that will come; of its arguments only dtypes, shapes, strides and devices count. */
typedef struct kiln_call {
  const char* op;
  const kiln_arg* args;
  size_t arg_count;
} kiln_call;

/* Called after each kernel or call of a warm-up or prebuild, from any thread, one at a time. */
typedef void (*kiln_progress_callback)(size_t done, size_t total, const char* name, void* user);
/* Called for each thing that cannot be had, one at a time, on the calling thread. */
typedef void (*kiln_failure_callback)(const char* name, kiln_status status, const char* message,
                                      void* user);
/* Asked after each kernel or call, after its progress; 1 ends it after the compiles under way. */
typedef int32_t (*kiln_stop_callback)(void* user);

typedef struct kiln_warmup_request {
  size_t struct_size;
  const kiln_call* calls; /* NULL when there are none. */
  size_t call_count;
  const char* manifest; /* A file of kiln_engine_options.record, of which what this device runs is
                           made ready too; NULL for none. */
  int32_t jobs;         /* Compiles at a time; 0: as the engine says. */
  int32_t reserved;
  kiln_progress_callback progress; /* May be NULL. */
  kiln_failure_callback failed;    /* May be NULL. */
  void* user;                      /* Handed to all of them. */
  kiln_stop_callback stop;         /* May be NULL. */
  const char* const* ops; /* Names of ops of which every kernel is made ready that the best target
                             of this device has. One that does not serve it has failed. */
  size_t op_count;
} kiln_warmup_request;

typedef struct kiln_warmup_report {
  size_t struct_size;
  uint64_t prepared; /* Calls and kernels of the request that are now ready. */
  uint64_t failed;   /* Those that are not. */
  uint64_t compiled; /* Kernels that this engine compiled meanwhile. */
  uint64_t loaded;   /* Libraries of kernels that it loaded into the driver meanwhile; kernels that
                        were compiled together are one. */
  double seconds;
} kiln_warmup_report;

/* Finds or compiles, several at a time, everything that is asked for and loads it into the current
 * context; a later call of any of it neither compiles nor loads. When some of it cannot be had, the
 * rest is made ready nonetheless, and the failure returned is the first one's. `report` may be
 * NULL, and is also filled in then. One that was stopped is KILN_ERROR_CANCELLED, without a report;
 * what was made ready before stays so. */
KILN_API kiln_status kiln_warmup(kiln_engine* engine, const kiln_warmup_request* request,
                                 kiln_warmup_report* report);

typedef struct kiln_prebuild_request {
  size_t struct_size;
  const char* const* ops; /* Names, or globs over names; NULL: every op. */
  size_t op_count;
  const char* const* targets; /* "sm_90a", ... */
  size_t target_count;
  int32_t jobs; /* Compiles at a time; 0: as the engine says. */
  int32_t reserved;
  kiln_progress_callback progress; /* May be NULL. */
  kiln_failure_callback failed;    /* May be NULL. */
  void* user;                      /* Handed to all of them. */
  kiln_stop_callback stop;         /* May be NULL. */
} kiln_prebuild_request;

typedef struct kiln_prebuild_report {
  size_t struct_size;
  uint64_t compiled; /* Kernels that were compiled and stored. */
  uint64_t cached;   /* Kernels that were there. */
  uint64_t failed;   /* Kernels that could not be compiled, or not be stored. */
  uint64_t skipped;  /* Pairs of an op and a target that it does not serve. */
  double seconds;
} kiln_prebuild_report;

/* Compiles every kernel of the ops for the targets into the cache, and needs no GPU: what `kiln
 * prebuild` does, for ops that only the caller's program knows. When some of it cannot be had, the
 * rest is made nonetheless, and the failure returned is the first one's; so it is when nothing is
 * there to be made. `report` may be NULL, and is also filled in then. One that was stopped is
 * KILN_ERROR_CANCELLED, without a report; what was stored before stays so. */
KILN_API kiln_status kiln_prebuild(kiln_engine* engine, const kiln_prebuild_request* request,
                                   kiln_prebuild_report* report);

/* Starts to find or compile what a call needs, on a thread of its own, and loads nothing. Data
 * pointers may be NULL. */
KILN_API kiln_status kiln_prefetch_start(kiln_engine* engine, const char* op, const kiln_arg* args,
                                         size_t arg_count, kiln_prefetch** prefetch);

/* Whether it has finished, well or not: *ready is 1 or 0. Never waits. */
KILN_API kiln_status kiln_prefetch_poll(const kiln_prefetch* prefetch, int32_t* ready);

/* Waits until it has finished, but at most so long; a negative time is for ever. *ready is 0 when
 * the time was over before. Once it has finished, the status returned is what became of it, and
 * *ready is 1 also when that is a failure. `ready` may be NULL. */
KILN_API kiln_status kiln_prefetch_wait(const kiln_prefetch* prefetch, int64_t timeout_nanoseconds,
                                        int32_t* ready);

/* Does not wait; what was started goes on. */
KILN_API void kiln_prefetch_destroy(kiln_prefetch* prefetch);

/* Unloads every kernel that this engine uses and no other engine of the process does; *unloaded,
 * which may be NULL, says how many libraries they were. A plan made before is then
 * KILN_ERROR_NOT_LOADED. The caller sees to it that the kernels' work has finished, that no graph
 * with them is launched again, and that no other thread uses the engine. Refused while one of
 * `streams`, or one of the current context that synchronises with the legacy default stream, is
 * being captured. */
KILN_API kiln_status kiln_unload(kiln_engine* engine, const kiln_stream* streams,
                                 size_t stream_count, size_t* unloaded);

/* Has kernels that could not be compiled, each of which is tried once, tried again. */
KILN_API kiln_status kiln_forget_compile_failures(kiln_engine* engine);

/* ---------------------------------------------------------------------------------------------
 * Looking */

/* Counts since the engine was made; they only grow. */
typedef struct kiln_counters {
  size_t struct_size;
  uint64_t compiles;             /* Kernels given to the compiler. */
  uint64_t cache_hits;           /* Lookups that found an entry, in any layer. */
  uint64_t cache_misses;         /* Lookups that found none. */
  uint64_t cache_bytes_read;     /* Of the files that hits came from. */
  uint64_t cache_publishes;      /* Entries written. */
  uint64_t cache_bytes_written;  /* Of those entries' files. */
  uint64_t cache_write_failures; /* Kernels that could not be stored. */
  uint64_t rejected_entries;     /* That failed a check or that the driver refused. */
  uint64_t removed_temporaries;  /* Files that writers left when they died. */
  uint64_t trimmed_files;        /* Removed to stay within the limits. */
  uint64_t libraries_loaded;     /* Into the driver; kernels that were compiled together
                                    are one library. */
} kiln_counters;

KILN_API kiln_status kiln_engine_counters(kiln_engine* engine, kiln_counters* counters);

/* What one directory or pack of the cache served. */
typedef struct kiln_cache_layer {
  size_t struct_size;
  const char* path; /* Valid until this thread's next call of kiln_cache_layer_at. */
  uint64_t hits;    /* Lookups that found their entry there. */
} kiln_cache_layer;

/* The layers, in the order in which they are asked: the root, then the read-only ones. What is not
 * used, for the reason that a warning has given, is none. */
KILN_API kiln_status kiln_cache_layer_count(kiln_engine* engine, size_t* count);
KILN_API kiln_status kiln_cache_layer_at(kiln_engine* engine, size_t index,
                                         kiln_cache_layer* layer);

/* The targets that the current context's device runs, best first: "sm_90a,sm_90". Valid until this
 * thread's next call of this function. */
KILN_API kiln_status kiln_device_targets(kiln_engine* engine, const char** targets);

/* How many ops there are, the engine's own among them. */
KILN_API kiln_status kiln_op_count(kiln_engine* engine, size_t* count);

/* Strings of an op live as long as its engine. */
typedef struct kiln_op_info {
  size_t struct_size;
  const char* name;
  const char* family;
  const char* summary;
  size_t arg_count;
  int32_t min_compute_capability; /* 90 for 9.0. */
  int32_t kernel_count;
} kiln_op_info;

/* Ops keep their places: built-in ones first, then in the order of registration. */
KILN_API kiln_status kiln_op_at(kiln_engine* engine, size_t index, kiln_op_info* info);
KILN_API kiln_status kiln_op_by_name(kiln_engine* engine, const char* op, kiln_op_info* info);

enum { KILN_READ = 0, KILN_WRITE = 1, KILN_READ_WRITE = 2 };

typedef struct kiln_op_arg_info {
  size_t struct_size;
  const char* name;
  const char* summary;
  int32_t is_tensor; /* 1, or 0 for a scalar. */
  int32_t optional;  /* 1: may be left out. */
  int32_t access;    /* KILN_READ, ... */
  int32_t constant;  /* 1: see kiln_launch_options.constants_ready. */
} kiln_op_arg_info;

KILN_API kiln_status kiln_op_arg_at(kiln_engine* engine, const char* op, size_t index,
                                    kiln_op_arg_info* info);

/* ---------------------------------------------------------------------------------------------
 * Ops of the caller's own
 *
 * What depends on a call's shapes is an expression over the op's symbols: integers, + - * / %
 * (whole numbers, rounded towards zero), parentheses, min(a, b), max(a, b), ceil_div(a, b). A call
 * for which one of them divides by zero or leaves 64 bits, or gives a geometry that no device
 * takes, is outside the op's contract. */

enum { KILN_TYPE_I32 = 0, KILN_TYPE_I64 = 1, KILN_TYPE_F32 = 2, KILN_TYPE_BOOL = 3 };

enum {
  KILN_FLAG_CONSTANT = 1,    /* A weight or table: may be read before the PDL wait. */
  KILN_FLAG_OPTIONAL = 2,    /* May be left out. */
  KILN_FLAG_ROW_STRIDED = 4, /* Innermost stride 1, outer ones free (rows that are written may not
                                overlap). Otherwise contiguous. */
  KILN_FLAG_HOST_MEMORY = 8  /* May also lie in host memory that the device can address. */
};

/* One argument of an op; a scalar when `dtypes` is NULL. */
typedef struct kiln_arg_spec {
  const char* name;
  const char* summary; /* May be NULL. */
  const char* dtypes; /* Allowed element types, with commas, of bf16, f32, e4m3, e8m0, u8, i32, i64,
                         bool and complex64. A kernel is not told which of several came. */
  const char* shape;  /* Axes, with commas: "m, 512". Each is an extent, a symbol, as the first one
                         also   "m...", which stands for any number of axes whose product is m, or an
                         expression over other symbols. */
  int32_t scalar_type; /* KILN_TYPE_... of a scalar. */
  int32_t access;      /* KILN_READ, ... */
  int32_t flags;       /* KILN_FLAG_... */
  int32_t alignment;   /* Bytes, of the data and of each row; 0: 16. */
  uint64_t reserved[2];
} kiln_arg_spec;

enum {
  KILN_PARAM_DATA = 1,           /* A tensor's data pointer; null when it is absent. */
  KILN_PARAM_STRIDE = 2,         /* A tensor's stride along `axis`, in elements. */
  KILN_PARAM_SCALAR = 3,         /* A scalar argument; 0 when it is absent. */
  KILN_PARAM_EXPRESSION = 4,     /* `name` is a symbol or an expression. */
  KILN_PARAM_WORKSPACE = 5,      /* The workspace's pointer. */
  KILN_PARAM_CONSTANTS_READY = 6 /* bool: constant arguments may be read before the PDL wait. */
};

/* One parameter of a kernel's signature. */
typedef struct kiln_param_spec {
  int32_t source; /* KILN_PARAM_... */
  int32_t axis;   /* Of a stride. */
  int32_t type;   /* KILN_TYPE_I32 or KILN_TYPE_I64 of a stride or an expression. */
  int32_t reserved;
  const char* name; /* The argument, or the expression. */
} kiln_param_spec;

/* One kernel; an op's kernels are launched in order on one stream. */
typedef struct kiln_kernel_spec {
  const char* name;          /* Unique within the op. */
  const char* source;        /* Which of the op's sources. */
  const char* instantiation; /* "axpy<256>"; with pdl on it may hold {PDL}: true or false. */
  const kiln_param_spec* params;
  size_t param_count;
  const char* grid[3];              /* Expressions; NULL: 1. A grid with a 0 launches nothing. */
  const char* block[3];             /* Expressions; NULL: 1. */
  const char* cluster[3];           /* Expressions; NULL: 1. */
  const char* dynamic_shared_bytes; /* An expression; NULL: 0. */
  int32_t cooperative;              /* 1: the whole grid must be resident at once. */
  int32_t reserved;
} kiln_kernel_spec;

/* CUDA source in memory; `name` is what an #include directive says. NVRTC gets no include folder:
 * what is included, in quotes or angle brackets, must be one of the op's sources. */
typedef struct kiln_source {
  const char* name;
  const char* text; /* NULL: `name` is a file below kiln_op_spec.source_directory. */
} kiln_source;

typedef struct kiln_op_spec {
  size_t struct_size;
  const char* name;
  const char* family;  /* NULL: "own". */
  const char* summary; /* May be NULL. */
  const kiln_arg_spec* args;
  size_t arg_count;
  const kiln_kernel_spec* kernels;
  size_t kernel_count;
  const kiln_source* sources;
  size_t source_count;
  const char* const* options; /* Extra NVRTC options. */
  size_t option_count;
  const char* workspace_bytes;    /* An expression; NULL: none. */
  int32_t min_compute_capability; /* 0: 90. */
  int32_t pdl; /* KILN_ON: the kernels hold the PDL wait (griddepcontrol.wait) where their {PDL} is
                * true. One in which it was not seen is launched without PDL. */
  /* Folder of the sources that have no text. They are read once, with everything that they include
   * in quotes; NVRTC finds no file for angle brackets. NULL: every source has a text. */
  const char* source_directory;
} kiln_op_spec;

/* Adds an op. KILN_ERROR_DUPLICATE_OP when the name is taken, KILN_ERROR_INVALID_ARGUMENT when the
 * description contradicts itself, KILN_ERROR_IO for a source file that cannot be read; the engine
 * is unchanged then. */
KILN_API kiln_status kiln_register_op(kiln_engine* engine, const kiln_op_spec* spec);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-deprecated-headers,readability-identifier-naming) */
