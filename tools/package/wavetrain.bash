# bash completion for wavetrain, written by `wavetrain completions bash`.
_wavetrain() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command= flags= i
    COMPREPLY=()
    # --flag=value is three words.
    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case " demo inspect crop stats check bench epoch budget completions man " in
        *" ${COMP_WORDS[i]} "*) command=${COMP_WORDS[i]} && break ;;
        esac
    done
    case "$command $before" in
    'demo --dtype') COMPREPLY=($(compgen -W 'f32 bf16 f16 i32 i64 u8 i8 u16 i16 u32 u64 f64 bool c64 c128 raw' -- "$word")) && return ;;
    'demo --backend') COMPREPLY=($(compgen -W 'auto host cuda' -- "$word")) && return ;;
    'demo --thread-mode') COMPREPLY=($(compgen -W 'own pump hook' -- "$word")) && return ;;
    'demo --on-error') COMPREPLY=($(compgen -W 'fail skip nan' -- "$word")) && return ;;
    'demo --missing-chunks') COMPREPLY=($(compgen -W 'fill error' -- "$word")) && return ;;
    'demo --pad-mode') COMPREPLY=($(compgen -W 'none constant edge reflect' -- "$word")) && return ;;
    'demo --enable-gds') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'demo --numa-strategy') COMPREPLY=($(compgen -W 'auto off pin' -- "$word")) && return ;;
    'demo --log-level') COMPREPLY=($(compgen -W 'trace debug info warn error fatal off' -- "$word")) && return ;;
    'demo --device-decode') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'demo --on-consumer-lost') COMPREPLY=($(compgen -W 'fail skip' -- "$word")) && return ;;
    'demo --share-order') COMPREPLY=($(compgen -W 'round first all' -- "$word")) && return ;;
    'crop --dtype') COMPREPLY=($(compgen -W 'f32 bf16 f16 i32 i64 u8 i8 u16 i16 u32 u64 f64 bool c64 c128 raw' -- "$word")) && return ;;
    'crop --backend') COMPREPLY=($(compgen -W 'auto host cuda' -- "$word")) && return ;;
    'crop --thread-mode') COMPREPLY=($(compgen -W 'own pump hook' -- "$word")) && return ;;
    'crop --on-error') COMPREPLY=($(compgen -W 'fail skip nan' -- "$word")) && return ;;
    'crop --missing-chunks') COMPREPLY=($(compgen -W 'fill error' -- "$word")) && return ;;
    'crop --pad-mode') COMPREPLY=($(compgen -W 'none constant edge reflect' -- "$word")) && return ;;
    'crop --enable-gds') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'crop --numa-strategy') COMPREPLY=($(compgen -W 'auto off pin' -- "$word")) && return ;;
    'crop --log-level') COMPREPLY=($(compgen -W 'trace debug info warn error fatal off' -- "$word")) && return ;;
    'crop --device-decode') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'crop --on-consumer-lost') COMPREPLY=($(compgen -W 'fail skip' -- "$word")) && return ;;
    'crop --share-order') COMPREPLY=($(compgen -W 'round first all' -- "$word")) && return ;;
    'stats --dtype') COMPREPLY=($(compgen -W 'f32 bf16 f16 i32 i64 u8 i8 u16 i16 u32 u64 f64 bool c64 c128 raw' -- "$word")) && return ;;
    'stats --backend') COMPREPLY=($(compgen -W 'auto host cuda' -- "$word")) && return ;;
    'stats --thread-mode') COMPREPLY=($(compgen -W 'own pump hook' -- "$word")) && return ;;
    'stats --on-error') COMPREPLY=($(compgen -W 'fail skip nan' -- "$word")) && return ;;
    'stats --missing-chunks') COMPREPLY=($(compgen -W 'fill error' -- "$word")) && return ;;
    'stats --pad-mode') COMPREPLY=($(compgen -W 'none constant edge reflect' -- "$word")) && return ;;
    'stats --enable-gds') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'stats --numa-strategy') COMPREPLY=($(compgen -W 'auto off pin' -- "$word")) && return ;;
    'stats --log-level') COMPREPLY=($(compgen -W 'trace debug info warn error fatal off' -- "$word")) && return ;;
    'stats --device-decode') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'stats --on-consumer-lost') COMPREPLY=($(compgen -W 'fail skip' -- "$word")) && return ;;
    'stats --share-order') COMPREPLY=($(compgen -W 'round first all' -- "$word")) && return ;;
    'check --dtype') COMPREPLY=($(compgen -W 'f32 bf16 f16 i32 i64 u8 i8 u16 i16 u32 u64 f64 bool c64 c128 raw' -- "$word")) && return ;;
    'check --backend') COMPREPLY=($(compgen -W 'auto host cuda' -- "$word")) && return ;;
    'check --thread-mode') COMPREPLY=($(compgen -W 'own pump hook' -- "$word")) && return ;;
    'check --on-error') COMPREPLY=($(compgen -W 'fail skip nan' -- "$word")) && return ;;
    'check --missing-chunks') COMPREPLY=($(compgen -W 'fill error' -- "$word")) && return ;;
    'check --pad-mode') COMPREPLY=($(compgen -W 'none constant edge reflect' -- "$word")) && return ;;
    'check --enable-gds') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'check --numa-strategy') COMPREPLY=($(compgen -W 'auto off pin' -- "$word")) && return ;;
    'check --log-level') COMPREPLY=($(compgen -W 'trace debug info warn error fatal off' -- "$word")) && return ;;
    'check --device-decode') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'check --on-consumer-lost') COMPREPLY=($(compgen -W 'fail skip' -- "$word")) && return ;;
    'check --share-order') COMPREPLY=($(compgen -W 'round first all' -- "$word")) && return ;;
    'bench --dtype') COMPREPLY=($(compgen -W 'f32 bf16 f16 i32 i64 u8 i8 u16 i16 u32 u64 f64 bool c64 c128 raw' -- "$word")) && return ;;
    'bench --backend') COMPREPLY=($(compgen -W 'auto host cuda' -- "$word")) && return ;;
    'bench --thread-mode') COMPREPLY=($(compgen -W 'own pump hook' -- "$word")) && return ;;
    'bench --on-error') COMPREPLY=($(compgen -W 'fail skip nan' -- "$word")) && return ;;
    'bench --missing-chunks') COMPREPLY=($(compgen -W 'fill error' -- "$word")) && return ;;
    'bench --pad-mode') COMPREPLY=($(compgen -W 'none constant edge reflect' -- "$word")) && return ;;
    'bench --enable-gds') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'bench --numa-strategy') COMPREPLY=($(compgen -W 'auto off pin' -- "$word")) && return ;;
    'bench --log-level') COMPREPLY=($(compgen -W 'trace debug info warn error fatal off' -- "$word")) && return ;;
    'bench --device-decode') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'bench --on-consumer-lost') COMPREPLY=($(compgen -W 'fail skip' -- "$word")) && return ;;
    'bench --share-order') COMPREPLY=($(compgen -W 'round first all' -- "$word")) && return ;;
    'epoch --dtype') COMPREPLY=($(compgen -W 'f32 bf16 f16 i32 i64 u8 i8 u16 i16 u32 u64 f64 bool c64 c128 raw' -- "$word")) && return ;;
    'epoch --backend') COMPREPLY=($(compgen -W 'auto host cuda' -- "$word")) && return ;;
    'epoch --thread-mode') COMPREPLY=($(compgen -W 'own pump hook' -- "$word")) && return ;;
    'epoch --on-error') COMPREPLY=($(compgen -W 'fail skip nan' -- "$word")) && return ;;
    'epoch --missing-chunks') COMPREPLY=($(compgen -W 'fill error' -- "$word")) && return ;;
    'epoch --pad-mode') COMPREPLY=($(compgen -W 'none constant edge reflect' -- "$word")) && return ;;
    'epoch --enable-gds') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'epoch --numa-strategy') COMPREPLY=($(compgen -W 'auto off pin' -- "$word")) && return ;;
    'epoch --log-level') COMPREPLY=($(compgen -W 'trace debug info warn error fatal off' -- "$word")) && return ;;
    'epoch --device-decode') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'epoch --on-consumer-lost') COMPREPLY=($(compgen -W 'fail skip' -- "$word")) && return ;;
    'epoch --share-order') COMPREPLY=($(compgen -W 'round first all' -- "$word")) && return ;;
    'budget --dtype') COMPREPLY=($(compgen -W 'f32 bf16 f16 i32 i64 u8 i8 u16 i16 u32 u64 f64 bool c64 c128 raw' -- "$word")) && return ;;
    'budget --backend') COMPREPLY=($(compgen -W 'auto host cuda' -- "$word")) && return ;;
    'budget --thread-mode') COMPREPLY=($(compgen -W 'own pump hook' -- "$word")) && return ;;
    'budget --on-error') COMPREPLY=($(compgen -W 'fail skip nan' -- "$word")) && return ;;
    'budget --missing-chunks') COMPREPLY=($(compgen -W 'fill error' -- "$word")) && return ;;
    'budget --pad-mode') COMPREPLY=($(compgen -W 'none constant edge reflect' -- "$word")) && return ;;
    'budget --enable-gds') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'budget --numa-strategy') COMPREPLY=($(compgen -W 'auto off pin' -- "$word")) && return ;;
    'budget --log-level') COMPREPLY=($(compgen -W 'trace debug info warn error fatal off' -- "$word")) && return ;;
    'budget --device-decode') COMPREPLY=($(compgen -W 'auto off on' -- "$word")) && return ;;
    'budget --on-consumer-lost') COMPREPLY=($(compgen -W 'fail skip' -- "$word")) && return ;;
    'budget --share-order') COMPREPLY=($(compgen -W 'round first all' -- "$word")) && return ;;
    'completions completions') COMPREPLY=($(compgen -W 'bash zsh fish' -- "$word")) && return ;;
    esac
    case $command in
    '') flags='--help --version' ;;
    demo) flags='--dir --png --crops --samples-per-batch --sample-rank --sample-shape --dtype --dtype-bytes --max-gpu-memory-bytes --max-host-memory-bytes --lookahead-samples --n-batch-slots --max-chunk-uncompressed-bytes --max-read-op-bytes --host-buffer-waves --max-chunks-per-wave --max-substreams-per-chunk --n-io-threads --n-decode-threads --metadata-io-concurrency --n-array-meta-cache --n-shard-index-cache --n-chunk-layout-cache --max-shards-per-sample --chunk-cache-bytes --backend --device --thread-mode --drop-last --on-error --missing-chunks --pad-mode --pad-value-set --pad-value --pop-timeout-ns --enable-gds --numa-strategy --numa-node --log-level --log-quiet --metadata-latency --cuda-driver --max-boxes-per-sample --max-npy-files --digest --augment --max-resample-bytes --device-decode --cf --hook-stack-bytes --max-open-files --keep-loaded --reset-timeout-ns --map-uncompressed --saturate --map-bytes-max --n-readers --trace-events --max-indices-per-sample --check-memory --on-consumer-lost --share-order --attach-timeout-ns --batch --threads --help' ;;
    inspect) flags='--json --help' ;;
    crop) flags='--out --out-dir --fields --dtype --augment --keep-going --json --samples-per-batch --sample-rank --sample-shape --dtype-bytes --max-gpu-memory-bytes --max-host-memory-bytes --lookahead-samples --n-batch-slots --max-chunk-uncompressed-bytes --max-read-op-bytes --host-buffer-waves --max-chunks-per-wave --max-substreams-per-chunk --n-io-threads --n-decode-threads --metadata-io-concurrency --n-array-meta-cache --n-shard-index-cache --n-chunk-layout-cache --max-shards-per-sample --chunk-cache-bytes --backend --device --thread-mode --drop-last --on-error --missing-chunks --pad-mode --pad-value-set --pad-value --pop-timeout-ns --enable-gds --numa-strategy --numa-node --log-level --log-quiet --metadata-latency --cuda-driver --max-boxes-per-sample --max-npy-files --digest --max-resample-bytes --device-decode --cf --hook-stack-bytes --max-open-files --keep-loaded --reset-timeout-ns --map-uncompressed --saturate --map-bytes-max --n-readers --trace-events --max-indices-per-sample --check-memory --on-consumer-lost --share-order --attach-timeout-ns --batch --threads --help' ;;
    stats) flags='--box --by-axis --percentiles --json --samples-per-batch --sample-rank --sample-shape --dtype --dtype-bytes --max-gpu-memory-bytes --max-host-memory-bytes --lookahead-samples --n-batch-slots --max-chunk-uncompressed-bytes --max-read-op-bytes --host-buffer-waves --max-chunks-per-wave --max-substreams-per-chunk --n-io-threads --n-decode-threads --metadata-io-concurrency --n-array-meta-cache --n-shard-index-cache --n-chunk-layout-cache --max-shards-per-sample --chunk-cache-bytes --backend --device --thread-mode --drop-last --on-error --missing-chunks --pad-mode --pad-value-set --pad-value --pop-timeout-ns --enable-gds --numa-strategy --numa-node --log-level --log-quiet --metadata-latency --cuda-driver --max-boxes-per-sample --max-npy-files --digest --augment --max-resample-bytes --device-decode --cf --hook-stack-bytes --max-open-files --keep-loaded --reset-timeout-ns --map-uncompressed --saturate --map-bytes-max --n-readers --trace-events --max-indices-per-sample --check-memory --on-consumer-lost --share-order --attach-timeout-ns --batch --threads --help' ;;
    check) flags='--box --list --json --samples-per-batch --sample-rank --sample-shape --dtype --dtype-bytes --max-gpu-memory-bytes --max-host-memory-bytes --lookahead-samples --n-batch-slots --max-chunk-uncompressed-bytes --max-read-op-bytes --host-buffer-waves --max-chunks-per-wave --max-substreams-per-chunk --n-io-threads --n-decode-threads --metadata-io-concurrency --n-array-meta-cache --n-shard-index-cache --n-chunk-layout-cache --max-shards-per-sample --chunk-cache-bytes --backend --device --thread-mode --drop-last --on-error --missing-chunks --pad-mode --pad-value-set --pad-value --pop-timeout-ns --enable-gds --numa-strategy --numa-node --log-level --log-quiet --metadata-latency --cuda-driver --max-boxes-per-sample --max-npy-files --digest --augment --max-resample-bytes --device-decode --cf --hook-stack-bytes --max-open-files --keep-loaded --reset-timeout-ns --map-uncompressed --saturate --map-bytes-max --n-readers --trace-events --max-indices-per-sample --check-memory --on-consumer-lost --share-order --attach-timeout-ns --batch --threads --help' ;;
    bench) flags='--requests --fields --augment --repeat --through-hook --verify --digest --digest-to --digest-from --trace --json --share --consumers --attach --consumer --samples-per-batch --sample-rank --sample-shape --dtype --dtype-bytes --max-gpu-memory-bytes --max-host-memory-bytes --lookahead-samples --n-batch-slots --max-chunk-uncompressed-bytes --max-read-op-bytes --host-buffer-waves --max-chunks-per-wave --max-substreams-per-chunk --n-io-threads --n-decode-threads --metadata-io-concurrency --n-array-meta-cache --n-shard-index-cache --n-chunk-layout-cache --max-shards-per-sample --chunk-cache-bytes --backend --device --thread-mode --drop-last --on-error --missing-chunks --pad-mode --pad-value-set --pad-value --pop-timeout-ns --enable-gds --numa-strategy --numa-node --log-level --log-quiet --metadata-latency --cuda-driver --max-boxes-per-sample --max-npy-files --max-resample-bytes --device-decode --cf --hook-stack-bytes --max-open-files --keep-loaded --reset-timeout-ns --map-uncompressed --saturate --map-bytes-max --n-readers --trace-events --max-indices-per-sample --check-memory --on-consumer-lost --share-order --attach-timeout-ns --batch --threads --help' ;;
    epoch) flags='--box --step --margin --jitter --run --shuffle-window --seed --epoch --sweep --shuffle --dry --json --samples-per-batch --sample-rank --sample-shape --dtype --dtype-bytes --max-gpu-memory-bytes --max-host-memory-bytes --lookahead-samples --n-batch-slots --max-chunk-uncompressed-bytes --max-read-op-bytes --host-buffer-waves --max-chunks-per-wave --max-substreams-per-chunk --n-io-threads --n-decode-threads --metadata-io-concurrency --n-array-meta-cache --n-shard-index-cache --n-chunk-layout-cache --max-shards-per-sample --chunk-cache-bytes --backend --device --thread-mode --drop-last --on-error --missing-chunks --pad-mode --pad-value-set --pad-value --pop-timeout-ns --enable-gds --numa-strategy --numa-node --log-level --log-quiet --metadata-latency --cuda-driver --max-boxes-per-sample --max-npy-files --digest --augment --max-resample-bytes --device-decode --cf --hook-stack-bytes --max-open-files --keep-loaded --reset-timeout-ns --map-uncompressed --saturate --map-bytes-max --n-readers --trace-events --max-indices-per-sample --check-memory --on-consumer-lost --share-order --attach-timeout-ns --batch --threads --help' ;;
    budget) flags='--json --samples-per-batch --sample-rank --sample-shape --dtype --dtype-bytes --max-gpu-memory-bytes --max-host-memory-bytes --lookahead-samples --n-batch-slots --max-chunk-uncompressed-bytes --max-read-op-bytes --host-buffer-waves --max-chunks-per-wave --max-substreams-per-chunk --n-io-threads --n-decode-threads --metadata-io-concurrency --n-array-meta-cache --n-shard-index-cache --n-chunk-layout-cache --max-shards-per-sample --chunk-cache-bytes --backend --device --thread-mode --drop-last --on-error --missing-chunks --pad-mode --pad-value-set --pad-value --pop-timeout-ns --enable-gds --numa-strategy --numa-node --log-level --log-quiet --metadata-latency --cuda-driver --max-boxes-per-sample --max-npy-files --digest --augment --max-resample-bytes --device-decode --cf --hook-stack-bytes --max-open-files --keep-loaded --reset-timeout-ns --map-uncompressed --saturate --map-bytes-max --n-readers --trace-events --max-indices-per-sample --check-memory --on-consumer-lost --share-order --attach-timeout-ns --batch --threads --help' ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    elif [[ -z $command ]]; then
        COMPREPLY=($(compgen -W 'demo inspect crop stats check bench epoch budget completions man' -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _wavetrain wavetrain
