//! Sizes and offsets as the Rust compiler lays them out, against `abi/abi.golden`, which the C compiler's are compared with.

#![allow(clippy::all)]

use quire_sys::*;
use std::fmt::Write;
use std::mem::MaybeUninit;

fn size_behind<T>(_: *const T) -> usize {
    std::mem::size_of::<T>()
}

macro_rules! layout {
    ($($name:ident { $($field:ident,)* })*) => {
        fn layout() -> String {
            let mut text = String::new();
            $({
                let place = MaybeUninit::<$name>::uninit();
                let base = place.as_ptr();
                writeln!(text, "struct {} {}", stringify!($name), std::mem::size_of::<$name>()).unwrap();
                $({
                    // Only addresses are made of what is not initialised.
                    let field = unsafe { std::ptr::addr_of!((*base).$field) };
                    let offset = field as usize - base as usize;
                    writeln!(text, "  {} {} {}", offset, size_behind(field), stringify!($field).trim_end_matches('_')).unwrap();
                })*
            })*
            text
        }
    };
}

#[test]
fn equals_the_golden_layout() {
    let golden = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../abi/abi.golden")).unwrap();
    let structs = |line: &&str| line.starts_with("struct ") || line.starts_with("  ");
    let mut wanted: Vec<&str> = Vec::new();
    let mut inside = false;
    for line in golden.lines().filter(|line| !line.is_empty()) {
        inside = if line.starts_with(' ') { inside } else { line.starts_with("struct ") };
        if inside && structs(&line) {
            wanted.push(line);
        }
    }
    let text = layout();
    let found: Vec<&str> = text.lines().collect();
    assert!(wanted.len() > 500, "the golden file was read");
    for (wanted, found) in wanted.iter().zip(&found) {
        assert_eq!(wanted, found);
    }
    assert_eq!(wanted.len(), found.len());
}

layout! {
    quire_str {
        data,
        len,
    }
    quire_error {
        struct_size,
        code,
        native_code,
        native_domain,
        source,
        message,
    }
    quire_dtype {
        code,
        bits,
        lanes,
    }
    quire_tensor {
        data,
        dtype,
        device_type,
        device_id,
        ndim,
        shape,
        stride,
        reserved0,
    }
    quire_runtime_options {
        struct_size,
        flags,
        header_abi,
        num_threads,
        driver,
        driver_path,
        connector_path,
        cpus,
        log,
        log_user,
        alloc,
        release_memory,
        alloc_user,
        clock,
        clock_user,
        log_level,
        reserved0,
    }
    quire_probe_info {
        struct_size,
        code,
        kind,
        step,
        duration_ns,
        name,
        path,
        reason,
    }
    quire_cache_options {
        struct_size,
        flags,
        max_sequences,
        max_entries_per_step,
        max_tokens_per_step,
        step_depth,
        max_roots,
        watermark_pages,
        num_state_branches,
        keep_states,
        max_pins,
        reserved0,
        max_index_units,
        max_media,
        hash_seed,
        checkpoint_interval,
        pin_quota_tokens,
        checkpoint_bytes,
        max_loads,
        reserved1,
        max_load_tokens,
    }
    quire_identity {
        struct_size,
        flags,
        salt,
        adapter,
        epoch,
        adapter_number,
    }
    quire_capacity {
        struct_size,
        reserved0,
        tokens,
        concurrency,
        guaranteed,
        decoding,
        resident,
        longest,
        pages_needed,
        bytes_needed,
        kv_cache_tokens,
    }
    quire_sequence_info {
        struct_size,
        steps_in_flight,
        committed,
        reserved,
        known,
        hit_tokens,
        num_parts,
        encoder_tokens,
    }
    quire_probe_result {
        struct_size,
        miss,
        hit_tokens,
        full_hit_tokens,
    }
    quire_cache_stats {
        struct_size,
        num_sequences,
        pages_total,
        pages_free,
        pages_evictable,
        pages_used,
        parts_used,
        parts_cached,
        part_holes,
        index_units,
        matches,
        matched_prompt_tokens,
        hit_tokens,
        miss_reasons,
        evicted_pages,
        evicted_blocks,
        hand_overs,
        steps,
        aborted_steps,
        refused_entries,
        preemptions,
        forks,
        copies,
        checkpoints,
        pins,
        pinned_tokens,
        pins_given_up,
        checkpoint_bytes,
        checkpoints_given_up,
        checkpoints_declined,
        recompute_avoided,
        host_bytes,
        holds,
        held_parts,
        units_given_up,
        loads,
        aborted_prompt_tokens,
        aborted_hit_tokens,
        aborted_recompute_avoided,
        aborted_miss_reasons,
        page_sample,
        page_lifetime,
        page_lifetime_ns,
        page_idle,
        page_idle_ns,
        page_reuse_gap,
        page_reuse_gap_ns,
    }
    quire_group_stats {
        struct_size,
        group,
        pages_used,
        pages_cached,
        page_lifetime,
        page_lifetime_ns,
        page_idle,
        page_idle_ns,
        page_reuse_gap,
        page_reuse_gap_ns,
    }
    quire_vllm_options {
        flags,
        state_mode,
        match_unit_tokens,
        retained_tokens,
        reserved0,
    }
    quire_plan_options {
        struct_size,
        flags,
        tensor_parallel,
        pipeline_parallel,
        context_parallel,
        block_tokens,
        kernel_block_tokens,
        kv_dtype,
        kv_scales,
        state_dtype,
        policy,
        layout,
        memory_bytes,
        num_memory_bytes,
        num_pages,
        max_model_len,
        max_tokens_in_flight,
        page_alignment,
        encoder_tokens,
        preferred_layouts,
        num_preferred_layouts,
        stage_layers,
        num_stage_layers,
        vllm,
    }
    quire_config_info {
        struct_size,
        num_groups,
        num_shards,
        match_unit_tokens,
        num_pages,
        max_model_len,
        padding_share,
        capacity_tokens,
        policy,
        layout,
    }
    quire_group_info {
        struct_size,
        group,
        is_state,
        block_tokens,
        kernel_block_tokens,
        kernel_blocks_per_part,
        parts_per_page,
        ids_per_block,
        num_lanes,
        num_caches,
        sink_tokens,
        window,
        chunk,
        payload_bytes_per_block,
        page_bytes_per_block,
        look_ahead,
        flags,
        encoder_tokens,
        table_pitch,
        checkpoint_interval,
    }
    quire_layer_place {
        struct_size,
        group,
        column,
        lane,
        index_in_lane,
        pipeline_stage,
    }
    quire_kv_view {
        struct_size,
        group,
        column,
        region,
        num_sides,
        num_heads,
        head_dim,
        block_tokens,
        blocks_per_page,
        dtype,
        codec,
        num_pages,
        offset,
        stride_page,
        stride_block,
        unit,
        stride_token,
        stride_head,
        stride_dim,
        codec_params,
        first_head,
        model_heads,
        kernel_blocks_per_part,
        tokens_per_row,
        context_rank,
        context_ranks,
    }
    quire_kv_field {
        side,
        role,
        dtype,
        num_items,
        tile_tokens,
        tile_items,
        offset,
        stride_head,
        stride_token_tile,
        stride_token,
        stride_item_tile,
        stride_item,
        reserved0,
    }
    quire_state_view {
        struct_size,
        group,
        column,
        region,
        dtype,
        ndim,
        offset,
        unit,
        stride_page,
        stride_part,
        shape,
        stride,
        parts_per_page,
        shard_dim,
        num_ranks,
        rank,
        shard_parts,
        num_pages,
        shard_repeats,
    }
    quire_region_info {
        struct_size,
        region,
        bytes,
        alignment,
        page_stride,
        num_planes,
    }
    quire_segment {
        region,
        layer,
        offset,
        bytes,
        reserved0,
    }
    quire_segment_query {
        struct_size,
        flags,
        shard,
        group,
        column,
        layer,
        sub,
        head_shard,
        num_head_shards,
        reserved0,
    }
    quire_run {
        from_region,
        to_region,
        from_offset,
        to_offset,
        bytes,
        count,
        from_stride,
        to_stride,
        reserved0,
    }
    quire_kv_blocks {
        view,
        ids,
        num_ids,
    }
    quire_compatibility {
        struct_size,
        level,
        reason,
    }
    quire_lowering {
        struct_size,
        parts_per_page,
        kernel_blocks_per_part,
        reserved0,
        page_factor,
        part_factor,
        block_factor,
        num_lowered_ids,
    }
    quire_connector_options {
        struct_size,
        reserved0,
        host,
        config,
    }
    quire_connector_info {
        struct_size,
        flags,
        max_in_flight,
        alignment,
        max_key_bytes,
        device_types,
        max_object_bytes,
        best_object_bytes,
    }
    quire_connector_health {
        struct_size,
        state,
        capacity_bytes,
        used_bytes,
        num_objects,
        num_evicted,
        num_damaged,
    }
    quire_ticket_run {
        region,
        address,
        bytes,
        count,
        stride,
        object_offset,
        object_stride,
    }
    quire_ticket {
        ticket,
        kind,
        priority,
        first_run,
        num_runs,
        num_keys,
        key_offset,
        key_bytes,
        object_bytes,
        sizes,
        lease_ns,
        deadline_ns,
    }
    quire_completion {
        ticket,
        code,
        flags,
        bytes,
        num_found,
    }
    quire_object_entry {
        key_offset,
        key_bytes,
        object_bytes,
        reserved0,
    }
    quire_connector_api {
        struct_size,
        reserved0,
        open,
        close,
        info,
        region_register,
        region_unregister,
        submit,
        poll,
        cancel,
        get_fd,
        health,
        list,
    }
    quire_connector_stats {
        struct_size,
        num_regions,
        num_submitted,
        num_in_flight,
        num_done,
        num_missing,
        num_failed,
        num_cancelled,
        num_strays,
        bytes_stored,
        bytes_loaded,
        bytes_in_flight,
        num_existed,
        keys_looked_up,
        keys_found,
        store_latency,
        load_latency,
        lookup_latency,
        store_ns,
        load_ns,
        lookup_ns,
    }
    quire_host_api {
        struct_size,
        abi_version,
        user,
        log,
        alloc,
        release_memory,
        now,
    }
    quire_query {
        struct_size,
        abi_min,
        abi_max,
        reserved0,
    }
    quire_manifest {
        magic,
        struct_size,
        kind,
        abi_version,
        name,
        version,
        sanitizers,
        api,
        ops,
    }
    quire_note {
        kind,
        abi_version,
        min_host_abi,
        flags,
        name,
    }
    quire_driver_options {
        struct_size,
        flags,
        host,
        cpus,
        num_cpus,
        num_threads,
    }
    quire_driver_api {
        struct_size,
        reserved0,
        create,
        destroy,
        device_count,
        device_open,
        device_close,
        device_info,
        mem_alloc,
        mem_free,
        tensor_create,
        stream_create,
        stream_destroy,
        stream_synchronize,
        event_create,
        event_destroy,
        event_record,
        event_wait,
        event_synchronize,
        copy,
        fill,
        kv_append,
        attention_workspace,
        attention_plan,
        attention,
        attention_merge,
        gated_delta,
        conv1d,
        selective_scan,
    }
    quire_hash_media {
        position,
        length,
        identifier_offset,
        identifier_bytes,
    }
    quire_hash_options {
        struct_size,
        algorithm,
        seed,
        block_tokens,
        flags,
        adapter,
        salt,
        media,
        num_media,
        identifiers,
        embeds,
        embed_rows,
        embed_row_bytes,
        parent,
        first_token,
    }
    quire_event_options {
        struct_size,
        algorithm,
        seed,
        ring_bytes,
    }
    quire_event {
        number,
        type_,
        group,
        hash_bytes,
        num_hashes,
        hashes_offset,
        parent_offset,
        parent_bytes,
        block_tokens,
        tokens_offset,
        num_tokens,
        keys_offset,
        keys_bytes,
        adapter_offset,
        adapter_number,
        adapter_bytes,
        kind_bytes,
        kind_offset,
        window,
    }
    quire_event_batch {
        struct_size,
        reserved0,
        num_events,
        num_bytes,
        next,
        oldest,
    }
    quire_event_encoding {
        struct_size,
        flags,
        time,
        rank,
        medium,
        locality,
    }
    quire_value {
        type_,
        reserved0,
        bits,
    }
    quire_extension_entry {
        struct_size,
        version,
        name,
        signature,
        doc,
        native,
        packed,
    }
    quire_extension_table {
        struct_size,
        stride,
        count,
        items,
    }
    quire_extension_info {
        struct_size,
        version,
        name,
        signature,
        doc,
        flags,
        num_args,
    }
    quire_hold_info {
        struct_size,
        reserved0,
        first_token,
        end_token,
        num_parts,
    }
    quire_unit {
        hold,
        sequence,
        first_token,
        end_token,
        reason,
        flags,
        digest,
        ahead_digest,
    }
    quire_unit_options {
        struct_size,
        reasons,
        unit_tokens,
        max_waiting,
        reserved0,
    }
    quire_load_failure {
        group,
        reserved0,
        first_token,
        num_tokens,
    }
    quire_device_info {
        struct_size,
        device_type,
        device_id,
        wave_width,
        total_bytes,
        free_bytes,
        alignment,
        driver,
        name,
    }
    quire_memory_binding {
        struct_size,
        region,
        address,
        bytes,
        device_type,
        device_id,
        reserved0,
    }
    quire_dlpack {
        versioned,
        legacy,
    }
    quire_export {
        struct_size,
        flags,
        kind,
        layer,
        sub,
        item,
        id,
        region,
        page,
    }
    quire_metrics_source {
        cache,
        tiers,
        memory,
        labels,
        reserved0,
    }
    quire_codec_params {
        data_bytes,
        scale_bytes,
        tail_bytes,
        data_dtype,
        scale_dtype,
        tail_dtype,
        scale_elements,
        tile,
        block_alignment,
    }
    quire_state_tensor {
        dtype,
        ndim,
        shape,
    }
    quire_layer {
        struct_size,
        flags,
        kind,
        layer,
        sub,
        num_kv_heads,
        num_q_heads,
        head_dim_k,
        head_dim_v,
        dtype,
        codec,
        sink_tokens,
        window,
        name,
        shares_with,
        compress_ratio,
        block_tokens,
        look_ahead,
        encoder_tokens,
        state_kind,
        num_state_tensors,
        state,
        state_shard,
        softcap,
        state_parts,
        codec_params,
        rope_dim,
        reserved0,
    }
    quire_model_info {
        struct_size,
        num_layers,
        num_caches,
        num_q_heads,
        max_model_len,
        architecture,
    }
    quire_paged_side {
        base,
        unit,
        stride_token,
        stride_head,
        stride_dim,
        head_dim,
        tail_dim,
        tail_offset,
        scales_offset,
        scales_stride_token,
        scales_stride_head,
    }
    quire_paged_kv {
        side,
        dtype,
        codec,
        num_heads,
        block_tokens,
        num_sides,
        group,
        column,
        scale_elements,
        data_dtype,
        scale_dtype,
        tail_dtype,
        reserved0,
        num_ids,
    }
    quire_paged_state {
        base,
        unit,
        dtype,
        ndim,
        shape,
        stride,
        num_ids,
        group,
        column,
    }
    quire_kv_append {
        struct_size,
        flags,
        kv,
        batch,
        key,
        value,
        rope_cos,
        rope_sin,
        rope_dim,
        rope_interleaved,
        scale_k,
        scale_v,
    }
    quire_attention {
        struct_size,
        flags,
        kv,
        batch,
        query,
        out,
        lse,
        sink_tokens,
        scale,
        softcap,
        window,
        chunk,
        head_dim_v,
        sink_logits,
        alibi_slopes,
        mask_bits,
        mask_indptr,
        scale_k,
        scale_v,
        plan,
        plan_bytes,
        workspace,
        workspace_bytes,
    }
    quire_attention_merge {
        struct_size,
        num_parts,
        partial_out,
        partial_lse,
        out,
        lse,
    }
    quire_gated_delta {
        struct_size,
        flags,
        state,
        batch,
        query,
        key,
        value,
        gate,
        beta,
        out,
        scale,
        reserved0,
    }
    quire_conv1d {
        struct_size,
        flags,
        state,
        batch,
        input,
        weight,
        bias,
        out,
    }
    quire_selective_scan {
        struct_size,
        flags,
        state,
        batch,
        x,
        dt,
        a,
        b,
        c,
        skip,
        dt_bias,
        z,
        out,
        dt_min,
        dt_max,
    }
    quire_copy_run {
        source,
        destination,
        bytes,
    }
    quire_pin_options {
        struct_size,
        priority,
        duration_ns,
    }
    quire_pin_info {
        struct_size,
        priority,
        tokens,
        num_parts,
        deadline_ns,
    }
    quire_session_options {
        struct_size,
        flags,
        weights,
        memories,
        streams,
    }
    quire_session_info {
        struct_size,
        reserved0,
        num_tokens,
        committed,
        hit_tokens,
        num_records,
        num_damaged,
        bytes,
    }
    quire_step {
        owner,
        id,
    }
    quire_reserve_entry {
        sequence,
        symbols_position,
        symbols_offset,
        num_symbols,
        num_tokens,
        num_look_ahead,
        flags,
        full_tokens,
        encoder_tokens,
    }
    quire_reserve_result {
        sequence,
        code,
        reason,
        missing_pages,
        position,
        num_tokens,
        hit_tokens,
        miss,
        row,
        flags,
        full_hit_tokens,
        group,
        reserved0,
    }
    quire_commit_entry {
        sequence,
        symbols_position,
        symbols_offset,
        num_symbols,
        num_accepted,
    }
    quire_step_info {
        struct_size,
        num_rows,
        num_tokens,
        num_copies,
        num_zeroes,
    }
    quire_batch {
        struct_size,
        flags,
        group,
        num_columns,
        num_rows,
        num_tokens,
        query_indptr,
        kv_len,
        positions,
        table,
        table_pitch,
        table_column_pitch,
        slots,
        num_slots,
        slots_column_pitch,
        state_read,
        state_write,
        state_read_column_pitch,
        state_write_column_pitch,
        state_write_indptr,
        state_write_ends,
    }
    quire_batch_options {
        struct_size,
        flags,
        shard,
        num_rows,
        num_tokens,
        reserved0,
        memory,
        bytes,
        address,
    }
    quire_fill {
        struct_size,
        kind,
        group,
        shard,
        first_column,
        num_columns,
        destination,
        capacity,
        pitch,
        column_pitch,
        fill_value,
        num_rows,
        num_tokens,
    }
    quire_copy {
        group,
        column,
        source,
        destination,
        first_token,
        num_tokens,
    }
    quire_zero {
        group,
        column,
        id,
        reserved0,
    }
    quire_tier {
        connector,
        name,
        reasons,
        flags,
        max_store_bytes,
        reserved0,
    }
    quire_tiers_options {
        struct_size,
        flags,
        weights,
        memories,
        streams,
        tiers,
        num_tiers,
        unit_tokens,
        ns_per_token,
        max_fetches,
        reserved0,
        tensor_parallel,
        num_tensor_parallel,
        event_ring_bytes,
    }
    quire_fetch_result {
        fetch,
        sequence,
        outcome,
        tier,
        committed,
        hit_tokens,
        bytes,
        elapsed_ns,
        reserved0,
    }
    quire_offer {
        handle,
        end_token,
        num_bytes,
    }
    quire_offer_info {
        struct_size,
        is_ready,
        num_records,
        num_tokens,
    }
    quire_peer {
        struct_size,
        tier,
        address,
        handle,
        end_token,
        flags,
        encoder_tokens,
    }
    quire_offer_refusal {
        struct_size,
        field,
        name,
        here,
        there,
    }
    quire_tier_stats {
        struct_size,
        is_open,
        name,
        units_stored,
        units_dropped,
        objects_stored,
        objects_existed,
        objects_loaded,
        objects_missing,
        objects_damaged,
        objects_failed,
        bytes_stored,
        bytes_loaded,
        bytes_in_flight,
        keys_looked_up,
        keys_found,
        tokens_fetched,
        times_closed,
        ns_per_mib,
        latency_ns,
        offers_refused,
    }
    quire_tiers_stats {
        struct_size,
        reserved0,
        unit_tokens,
        fetches,
        fetches_in_progress,
        outcomes,
        tokens_fetched,
        tokens_hit,
        units_taken,
        units_in_flight,
        quarantined,
        quarantined_ever,
        tokens_asked,
        fetch_ns,
        fetch_latency,
        offers,
        offers_in_progress,
    }
    quire_record_info {
        struct_size,
        version,
        key,
        fingerprint,
        prefix,
        caches,
        first_token,
        end_token,
        header_bytes,
        block_bytes,
        num_blocks,
        first_block,
        end_block,
        written_at_ns,
        block_tokens,
        is_state,
        num_caches,
        first_layer,
        last_layer,
        first_head,
        num_heads,
        rank,
        num_ranks,
        reserved0,
    }
}
