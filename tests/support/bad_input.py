"""Which tests see to each kind of bad input, in the words of who gives it."""

from __future__ import annotations

HERE = "tests/unit/test_bad_input.py"
BROKER = "tests/kafka/test_bad_broker.py"
WORKER = "tests/kafka/test_bad_input.py"
RECORDS = "tests/unit/processor/test_bad_input.py"
EMBEDDED = "tests/kafka/test_embedding.py"
PROGRAM = "tests/kafka/test_embedding_bad_input.py"
LOCAL = "tests/kafka/test_local_cluster.py"
DEFINITIONS = "tests/kube/test_definitions.py"
USERS = "tests/kube/test_journeys.py"
ROUNDS = "tests/unit/kube_operator/test_rounds.py"
ROLL_ON = "tests/unit/kube_operator/test_roll_on.py"
CATALOG = "tests/unit/kube_operator/test_image_catalog.py"
RIGHTS = "tests/kafka/test_kafka_rights.py"
AWAY = "tests/kube/test_broker_away.py"
SIDECARS = "tests/unit/kube_operator/test_sidecars.py"
SECRETS = "tests/kube/test_kafka_secrets.py"
BACKFILL = "tests/spark/test_backfill.py"
CONTINUOUS = "tests/spark/test_continuous.py"
RULES = "tests/unit/test_topology_rules.py"
REGISTRY = "tests/kafka/test_registry_worker.py"
ANSWERS = "tests/contract/test_query_answers.py"
CALLS = "tests/unit/processor/test_asynchronous.py"
WAITS = "tests/kafka/test_functions_that_wait.py"
NO_JAVA = "tests/unit/spark/test_without_java.py"
PAGE = "tests/unit/web/test_serving.py"
BROWSER = "tests/unit/web/test_browser.py"
ACTIONS = "tests/unit/kube_operator/test_streamactions.py"
AUTOSCALING = "tests/unit/decide/test_autoscaling.py"
CALLERS = "tests/unit/service/test_httpauth.py"
ASKING = "tests/contract/test_query_on_cluster.py"
REAL_WORKERS = "tests/kube/test_real_workers.py"
REAL_ACTIONS = "tests/kube/test_real_actions.py::test_each_kind_of_action_is_carried_out_under_load"
FROM_SECRETS = "test_credentials_go_from_secrets_to_kafka_and_what_is_wrong_with_them_is_named"

COVERAGE = {
    "undecodable key or value": [
        f"{RECORDS}::test_fail_stops_at_the_record_and_says_where_and_what_next",
        f"{RECORDS}::test_continue_drops_counts_warns_and_goes_on",
        f"{WORKER}::test_a_bad_record_ends_the_worker_at_its_offset_and_the_cure_it_names_skips_just_that_one",
        f"{EMBEDDED}::test_what_ends_an_application_is_raised_to_who_waits_for_it",
        f"{PROGRAM}::test_a_bad_record_ends_the_program_at_its_offset_and_the_cure_it_names_skips_just_that_one",
    ],
    "negative or missing timestamp": [
        f"{RECORDS}::test_fail_stops_at_the_record_and_says_where_and_what_next",
        f"{RECORDS}::test_extractors_give_the_timestamp",
        f"{WORKER}::test_a_bad_record_ends_the_worker_at_its_offset_and_the_cure_it_names_skips_just_that_one",
        f"{PROGRAM}::test_a_bad_record_ends_the_program_at_its_offset_and_the_cure_it_names_skips_just_that_one",
    ],
    "unknown source topic": [
        "tests/unit/test_partitions.py::test_topics_that_do_not_fit_are_named",
        f"{BROKER}::test_topics_that_do_not_fit_end_headwater_up_before_anything_is_written",
        f"{EMBEDDED}::test_what_cannot_run_does_not_start",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "source topic deleted in mid-run": [
        f"{WORKER}::test_a_source_topic_deleted_in_mid_run_ends_the_worker_and_keeps_what_was_counted",
        f"{PROGRAM}::test_a_source_topic_deleted_in_mid_run_ends_the_program_and_keeps_what_was_counted",
    ],
    "partition counts of co-partitioned topics": [
        "tests/unit/test_joins.py::test_topics_that_are_joined_need_equal_partition_counts",
        "tests/unit/test_stream_joins.py::test_topics_of_a_stream_that_is_joined_with_itself_need_equal_counts",
        "tests/unit/test_partitions.py::test_external_topics_that_are_joined_must_have_equal_counts",
        "tests/unit/test_partitions.py::test_an_enforced_count_must_equal_that_of_the_topic_it_is_joined_with",
        "tests/unit/test_partitions.py::test_two_enforced_counts_in_a_join_must_be_equal",
    ],
    "partition count of an existing changelog": [
        f"{BROKER}::test_topics_that_do_not_fit_end_headwater_up_before_anything_is_written",
        f"{EMBEDDED}::test_what_cannot_run_does_not_start",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "wrong YAML field or type": [
        f"{HERE}::test_a_mistake_in_the_file_is_named_in_one_line_by_every_command",
        "tests/unit/test_streamapp.py::test_a_mistake_is_named_with_its_path",
        "tests/kafka/test_local_cluster.py::test_a_users_mistake_ends_up_with_a_message_and_no_traceback",
    ],
    "unknown serde": [
        f"{HERE}::test_a_mistake_that_only_a_worker_sees_is_named_in_one_line",
        "tests/unit/test_config.py::test_a_serde_that_cannot_be_had_is_named",
        f"{EMBEDDED}::test_a_users_mistake_is_told_by_the_constructor",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "import path that fails": [
        f"{HERE}::test_a_mistake_that_only_a_worker_sees_is_named_in_one_line",
        "tests/unit/test_loading.py::test_a_path_that_leads_nowhere_says_why_and_what_next",
        "tests/kafka/test_local_cluster.py::test_a_users_mistake_ends_up_with_a_message_and_no_traceback",
        f"{EMBEDDED}::test_a_users_mistake_is_told_by_the_constructor",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "unreachable broker at start": [
        f"{BROKER}::test_a_broker_that_never_answers_ends_headwater_up",
        "tests/unit/service/test_giving_up.py::test_a_broker_that_never_answers_is_given_up_after_the_time_out_from_the_first_start",
        f"{EMBEDDED}::test_what_cannot_run_does_not_start",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "unreachable broker in mid-run": [
        f"{BROKER}::test_a_broker_killed_in_mid_run_is_given_up_after_the_time_out_and_the_rest_is_made_up_later",
        "tests/kafka/test_stream_thread.py::test_a_restart_of_the_broker_in_mid_run_loses_nothing",
        "tests/unit/service/test_giving_up.py::test_a_broker_lost_in_mid_run_is_given_up_when_the_thread_has_waited_for_it",
        f"{PROGRAM}::test_a_broker_killed_in_mid_run_is_given_up_after_the_time_out_and_the_rest_is_made_up_later",
        f"{PROGRAM}::test_a_broker_that_comes_back_in_time_is_made_up_with",
    ],
    "authentication failure": [
        f"{BROKER}::test_a_worker_that_the_broker_refuses_ends_at_once",
        f"{BROKER}::test_headwater_up_ends_when_the_broker_refuses",
        f"{PROGRAM}::test_a_broker_that_refuses_us_ends_the_program",
    ],
    "full disk": [
        f"{WORKER}::test_a_full_disk_ends_the_worker_and_costs_nothing_but_the_time_to_make_room",
        "tests/contract/test_store_faults.py::test_a_write_refused_by_a_full_disk_changes_nothing",
        "tests/contract/test_store_faults.py::test_a_full_disk_is_named_and_nothing_is_lost_or_half_written",
        f"{PROGRAM}::test_a_full_disk_ends_the_program_and_costs_nothing_but_the_time_to_make_room",
    ],
    "store directory used by another process": [
        f"{WORKER}::test_a_store_that_another_process_has_open_is_waited_for_a_while_and_its_holder_named",
        f"{PROGRAM}::test_a_store_that_another_process_has_open_is_waited_for_a_while_and_its_holder_named",
    ],
    "message larger than the broker takes": [
        f"{WORKER}::test_a_record_larger_than_the_broker_takes_ends_the_worker_and_is_read_again_later",
        f"{PROGRAM}::test_a_record_larger_than_the_broker_takes_ends_the_program_and_is_read_again_later",
    ],
    "foreign member in the group": [
        f"{BROKER}::test_a_java_application_started_beside_ours_stops_ours",
        f"{BROKER}::test_ours_started_a_second_after_the_end_of_javas_says_whom_it_waits_for_and_then_runs",
        f"{EMBEDDED}::test_a_foreign_member_of_the_group_keeps_an_application_from_starting",
        f"{PROGRAM}::test_a_foreign_member_keeps_the_program_from_starting",
        f"{PROGRAM}::test_a_foreign_member_that_comes_while_the_program_runs_ends_it",
    ],
    "a changelog that is gone": [
        f"{PROGRAM}::test_a_changelog_that_is_gone_ends_the_program_with_the_choices_and_the_state_is_kept",
        f"{LOCAL}::test_a_changelog_that_is_gone_stops_the_application_and_the_stores_are_kept",
        "tests/kafka/test_updater.py::test_the_last_copy_of_a_state_is_left_as_it_is_until_somebody_gives_it_up",
    ],
    "expired group offsets": [
        f"{WORKER}::test_expired_offsets_stop_the_application_with_the_choices_and_the_state_is_kept",
        f"{PROGRAM}::test_expired_offsets_end_the_program_with_the_choices_and_the_state_is_kept",
    ],
    # On a cluster.
    "each CEL rule": [
        f"{DEFINITIONS}::test_a_broken_rule_is_told_with_the_message_of_headwater_up",
        f"{DEFINITIONS}::test_every_rule_is_broken_by_a_document_that_breaks_nothing_else",
        f"{DEFINITIONS}::test_every_rule_about_a_change_refuses_some_and_takes_others",
        "tests/unit/test_definitions.py::test_every_rule_has_a_document_that_just_keeps_it",
    ],
    "missing Secret": [
        f"{USERS}::test_what_keeps_workers_from_starting_is_named_with_the_next_step",
        f"{SECRETS}::{FROM_SECRETS}",
    ],
    "image that cannot be pulled": [
        f"{USERS}::test_what_keeps_workers_from_starting_is_named_with_the_next_step",
        f"{USERS}::test_a_new_image_is_rolled_out_and_one_that_does_not_exist_halts",
        f"{ROUNDS}::test_an_image_that_cannot_be_pulled_is_named_and_waited_for",
        "tests/e2e/test_6_changing.py::test_a_bad_tag_halts_the_roll_out_and_costs_nothing",
    ],
    "pod template that asks for what a restricted pod may not have": [
        f"{DEFINITIONS}::test_a_broken_rule_is_told_with_the_message_of_headwater_up",
        "tests/unit/test_streamapp.py::test_a_broken_rule_is_told_with_its_message",
    ],
    "init container that fails": [
        f"{SIDECARS}::test_an_init_container_that_fails_halts_a_roll_out_with_its_reason",
    ],
    "sidecar that fails": [
        f"{SIDECARS}::test_a_sidecar_that_fails_stands_in_a_condition_and_moves_no_task",
    ],
    "storage class that does not exist": [
        f"{USERS}::test_what_keeps_workers_from_starting_is_named_with_the_next_step",
    ],
    "topic without rights": [
        f"{RIGHTS}::test_what_is_not_allowed_is_named_with_the_acl_to_add_and_then_it_goes_on",
        f"{SECRETS}::{FROM_SECRETS}",
    ],
    "two StreamApps with one application id": [
        f"{USERS}::test_of_two_streamapps_with_one_application_id_the_older_runs",
        f"{ROUNDS}::test_of_two_streamapps_with_one_application_id_only_the_older_runs",
        f"{ROUNDS}::test_one_application_id_on_two_kafkas_is_two_applications",
    ],
    "deletion while the broker is unreachable": [
        f"{AWAY}::test_streamapps_deleted_while_their_broker_is_away_leave_nothing_and_lose_nothing",
    ],
    "hand-edited StreamWorker": [
        f"{USERS}::test_a_streamworker_edited_by_hand_is_fenced_and_written_anew",
        f"{ROUNDS}::test_a_streamworker_changed_by_hand_is_fenced_and_written_anew",
        f"{ROUNDS}::test_an_epoch_raised_by_hand_is_outdone",
    ],
    "replicas above the number of tasks": [
        f"{USERS}::test_no_workers_and_more_workers_than_tasks_are_both_a_state_of_rest",
        f"{ROUNDS}::test_more_workers_than_tasks_are_reported_not_refused",
    ],
    "replicas 0": [
        f"{USERS}::test_no_workers_and_more_workers_than_tasks_are_both_a_state_of_rest",
        f"{ROUNDS}::test_no_replicas_at_all_is_a_state_of_rest",
    ],
    "namespace deleted in the middle of a scale-up": [
        f"{USERS}::test_a_namespace_deleted_in_the_middle_of_a_scale_up_goes_away",
        f"{ROUNDS}::test_a_namespace_deleted_in_the_middle_of_a_scale_up_leaves_nothing",
    ],
    # Of the language.
    "null key or value": [
        "tests/unit/processor/test_operators.py::test_a_null_key_or_value_of_an_aggregation_is_counted_as_dropped",
        "tests/unit/processor/test_operators.py::test_repartitioning_drops_null_keys_without_counting_them",
        "tests/unit/processor/test_operators.py::test_a_grouped_tables_record_without_a_key_is_an_error",
        "tests/unit/test_joins.py::test_a_record_meets_what_the_table_holds_when_it_is_processed",
        "tests/unit/test_joins.py::test_a_stream_with_other_keys_goes_through_a_topic_without_those_that_nobody_joins",
        "tests/unit/test_stream_joins.py::test_a_record_without_a_key_finds_nothing_and_one_without_a_value_is_dropped",
        "tests/unit/test_foreign_joins.py::test_a_row_without_a_foreign_key_is_dropped_and_counted_by_an_inner_join_alone",
    ],
    "headers that are no pairs of name and bytes": [
        "tests/unit/processor/test_given_headers.py::test_headers_that_no_record_can_have_are_named_with_the_cure",
    ],
    "late record": [
        "tests/unit/processor/test_windowed.py::test_a_window_is_open_until_stream_time_reaches_its_end_and_grace",
    ],
    "function that raises or returns the wrong type": [
        f"{RECORDS}::test_fail_stops_at_the_record_and_says_where_and_what_next",
        f"{RECORDS}::test_what_only_looks_like_pairs_is_not_taken_apart",
        f"{RECORDS}::test_a_serde_that_a_repartition_lacks_is_named_with_its_node",
    ],
    "rule of a topology, negative grace, retention below the window, join of two builders": [
        f"{RULES}::test_who_breaks_a_rule_is_told_where_and_what_to_change",
    ],
    "registry down, without the schema, or refusing it": [
        f"{REGISTRY}::test_a_registry_that_gives_no_schema_ends_the_application_with_the_next_step",
        "tests/kafka/test_schema_registry.py::test_a_registry_that_does_not_answer_is_named_without_its_password",
        "tests/kafka/test_schema_registry.py::test_a_schema_that_is_not_there_is_named",
        "tests/kafka/test_schema_registry.py::test_a_schema_that_does_not_go_with_the_others_is_named",
    ],
    # Of the runtime.
    "query while a task moves or restores": [
        f"{ANSWERS}::test_a_task_that_moves_or_is_a_copy_answers_if_it_may",
        "tests/contract/test_query_programs.py::test_a_partition_that_moves_is_an_error_and_a_copy_is_passed_over",
        "tests/chaos/test_queries.py::test_each_answer_is_one_that_the_store_had_at_some_commit_whatever_moves_or_dies",
    ],
    "query for a store or key that nobody has": [
        f"{ANSWERS}::test_what_cannot_be_asked_so",
        f"{ANSWERS}::test_a_key_that_nobody_has",
        f"{ANSWERS}::test_a_key_that_another_worker_has_names_it",
    ],
    "query whose bound is not reached": [f"{ANSWERS}::test_a_bound_that_is_not_reached"],
    "serde that cannot show its value as JSON": [
        "tests/unit/queries/test_shown.py::test_what_json_cannot_hold_says_how_to_get_its_bytes",
        "tests/unit/queries/test_shown.py::test_what_is_no_key_is_named_with_its_serde",
    ],
    "cursor of yesterday": [
        "tests/unit/queries/test_cursors.py::test_a_cursor_of_yesterday_says_how_old_it_is_and_what_to_do",
        f"{ANSWERS}::test_a_cursor_of_yesterday_is_gone",
    ],
    "async function that never returns": [
        f"{CALLS}::test_a_call_that_never_returns_is_given_up",
        f"{CALLS}::test_a_plain_function_that_never_returns_is_given_up_and_its_thread_replaced",
    ],
    "async function that raises": [
        f"{CALLS}::test_an_error_of_a_call_goes_to_the_processing_handler_with_its_record",
        f"{CALLS}::test_a_handler_that_says_fail_ends_the_task_with_the_place",
        f"{CALLS}::test_a_call_that_cancels_itself_or_ends_the_program_fails_for_its_record_alone",
    ],
    "async function that returns after its time-out": [
        f"{CALLS}::test_what_returns_after_its_time_out_counts_once",
    ],
    "async function in flight at a move or at shutdown": [
        f"{WAITS}::test_a_move_and_a_shutdown_wait_for_the_calls_in_flight_and_each_result_comes_once",
        f"{WAITS}::test_a_call_that_never_returns_holds_up_a_move_until_its_time_out_and_is_named",
        f"{CALLS}::test_an_abort_forgets_calls_in_flight_and_makes_them_again",
    ],
    "batch function that returns another length": [
        f"{CALLS}::test_a_batch_function_that_returns_something_else_is_told_so",
        f"{CALLS}::test_of_a_batch_that_fails_the_other_records_go_on",
    ],
    "topic of a global store that is deleted or has no partitions": [
        "tests/kafka/test_global_thread.py::test_a_topic_that_is_deleted_while_it_is_followed_is_named_with_the_way_out",
        "tests/unit/test_global_stores.py::test_a_topic_that_is_missing_or_has_no_partitions_is_named_with_the_next_step",
    ],
    "function of a global store that never returns": [
        "tests/unit/service/test_global_thread.py::test_one_that_hangs_is_killed_with_its_place_and_another_one_starts",
        "tests/kafka/test_global_thread.py::test_a_function_that_does_not_return_is_named_and_the_global_thread_replaced",
    ],
    "removal of the last thread": [
        "tests/kafka/test_threads.py::test_threads_come_and_go_under_load_and_every_record_is_counted_once",
        "tests/unit/local_cluster/test_commands.py::test_threads_are_scaled_alone_or_with_the_workers",
    ],
    "port of a worker that is taken": [
        f"{HERE}::test_a_port_that_is_taken_is_named_in_one_line",
        "tests/unit/service/test_http.py::test_a_port_in_use_is_named",
    ],
    "a Secret that workers were started from is changed, deleted, or of no use": [
        f"{ROLL_ON}::test_a_secret_that_is_deleted_warns_and_replaces_nobody",
        f"{ROLL_ON}::test_contents_with_which_no_worker_starts_halt_it_until_they_are_mended",
        f"{ROLL_ON}::test_a_change_during_the_roll_out_is_rolled_out_with_it",
    ],
    "an image catalogue, or a version in it, that is not there": [
        f"{CATALOG}::test_a_version_that_is_gone_is_named_and_what_runs_goes_on",
        f"{CATALOG}::test_a_catalogue_that_is_gone_is_named_and_what_runs_goes_on",
    ],
    # On Spark.
    "retention has passed where a backfill begins": [
        f"{BACKFILL}::test_what_retention_has_deleted_is_not_passed_over",
        f"{BACKFILL}::test_records_deleted_while_the_backfill_runs_end_it",
    ],
    "partitions added while Spark runs": [
        f"{BACKFILL}::test_a_partition_added_while_the_backfill_runs_ends_it",
        f"{CONTINUOUS}::test_a_topic_that_gets_partitions_ends_the_driver_with_a_sentence",
    ],
    "group that still has members": [
        f"{BACKFILL}::test_a_group_with_members_is_refused",
        f"{CONTINUOUS}::test_what_must_not_be_is_refused",
    ],
    "internal topics of another generation": [
        f"{BACKFILL}::test_topics_that_are_not_the_backfills_own_are_refused",
        f"{BACKFILL}::test_an_unfinished_backfill_is_gone_on_with_only_if_nothing_has_changed",
    ],
    "topology that the chosen target cannot compute": [
        "tests/spark/test_dataframes_on_kafka.py::test_what_dataframes_cannot_do_is_named",
        "tests/unit/spark/test_translate.py::test_what_is_not_provably_equal_is_left_to_tasks",
    ],
    "Java that is too old, or none": [
        f"{NO_JAVA}::test_a_java_that_is_too_old_is_named",
        f"{NO_JAVA}::test_a_machine_without_java_is_told_how_to_get_one",
    ],
    "jars that cannot be had": [
        f"{NO_JAVA}::test_without_the_connectors_jars_there_is_another_reader",
    ],
    "checkpoint of another application": [
        f"{CONTINUOUS}::test_what_must_not_be_is_refused",
    ],
    "executor, Python worker or driver killed": [
        "tests/spark/test_on_spark.py::test_a_python_worker_killed_in_a_transaction_and_then_the_driver",
        f"{BACKFILL}::test_a_backfill_that_is_killed_at_every_step_is_exact",
        f"{CONTINUOUS}::test_outputs_are_exact_whoever_is_killed",
    ],
    "a page that is open while what serves it, or what it shows, goes": [
        f"{BROWSER}::test_a_server_that_is_gone_is_told_with_the_age_of_the_values_and_found_again",
        f"{PAGE}::test_what_was_seen_stays_while_looking_fails_and_the_reason_is_told",
        "tests/kafka/test_page.py::test_a_kill_a_restore_and_a_move_are_seen_while_they_happen",
        f"{REAL_WORKERS}::test_two_workers_count_exactly_through_faults_and_a_bad_roll_out",
    ],
    "a token of the page that is wrong, weak, or of an earlier start": [
        f"{BROWSER}::test_actions_ask_for_the_token_until_it_is_right",
        f"{PAGE}::test_an_action_takes_the_token_and_no_other_page_can_ask_for_it",
        f"{PAGE}::test_a_token_comes_from_a_file_or_the_environment_and_is_long_enough",
    ],
    "a token for workers that is wrong, expired, of somebody without the right, or missing": [
        f"{CALLERS}::test_a_token_is_replaced_without_another_process",
        f"{CALLERS}::test_state_is_handed_over_to_callers_with_the_token_alone",
        f"{CALLERS}::test_the_operators_token_expires_and_is_renewed",
        f"{CALLERS}::test_a_signed_token_that_is_not_the_operators_is_refused",
        f"{CALLERS}::test_a_secret_that_is_emptied_closes_the_door",
        f"{ASKING}::test_a_secret_that_cannot_be_read_is_named_with_the_next_step",
        f"{ASKING}::test_a_token_that_is_wrong_is_told_in_the_workers_words",
    ],
    "another page of the browser that reaches for the page": [
        f"{PAGE}::test_a_name_of_somebody_else_that_points_here_is_refused",
        f"{PAGE}::test_a_journey_is_asked_for_by_the_page_itself",
    ],
    "a port of the page that is in use": [
        f"{PAGE}::test_a_port_in_use_is_named_with_the_way_out",
    ],
    "a topology that the page cannot run in memory": [
        "tests/unit/local_cluster/test_journeys.py::test_a_topology_that_cannot_be_run_is_told_with_what_it_said",
    ],
    # Operating it.
    "two actions that exclude each other": [
        f"{ACTIONS}::test_of_two_that_exclude_each_other_the_second_waits_and_names_the_first",
        f"{ACTIONS}::test_of_two_types_either_each_excludes_the_other_or_neither_does",
        REAL_ACTIONS,
    ],
    "an action on an application that is gone, or was never there": [
        f"{ACTIONS}::test_an_action_of_an_application_that_is_not_there_says_so",
        f"{ACTIONS}::test_an_action_ends_with_its_application",
        REAL_ACTIONS,
    ],
    "an action with a worker that never answers": [
        f"{ACTIONS}::test_a_drain_of_a_worker_that_lets_go_of_nothing_runs_out_of_time",
        REAL_ACTIONS,
    ],
    "an action that is cancelled half-way": [
        f"{ACTIONS}::test_a_cancelled_drain_leaves_the_worker_as_it_was",
        f"{ACTIONS}::test_a_reset_that_is_cancelled_before_its_duty_leaves_everything",
        REAL_ACTIONS,
    ],
    "an action that the API server refuses something": [
        f"{ACTIONS}::test_each_action_says_itself_what_the_api_server_refuses_it",
        f"{ACTIONS}::test_what_the_api_server_refuses_an_action_does_not_hold_up_the_application",
    ],
    "an action that says too little or too much, or names what is not there": [
        "tests/kube/test_actions_page.py::test_an_action_that_says_too_little_or_too_much_is_refused",
        f"{ACTIONS}::test_an_unknown_worker_is_named_and_so_are_the_known_ones",
        f"{ACTIONS}::test_a_task_that_is_not_there_is_named",
        f"{ACTIONS}::test_a_backfill_needs_a_job_that_waits",
    ],
    "a cluster without VolumeSnapshots, or a snapshot that is never ready": [
        f"{ACTIONS}::test_a_cluster_without_volume_snapshots_says_what_is_missing",
        f"{ACTIONS}::test_a_snapshot_that_is_not_there_is_not_restored_from",
        REAL_ACTIONS,
    ],
    "a claim that cannot grow": [
        f"{ROUNDS}::test_volumes_that_cannot_grow_are_named",
        "tests/kube/test_live_changes.py::test_running_workers_take_over_logs_metrics_and_threads_and_count_each_update_once",
    ],
    "a variable of a dashboard that matches nothing": [
        "tests/prometheus/test_evaluation.py::test_a_choice_that_fits_nothing_is_no_data_and_no_error",
    ],
    "autoscaling with min above max, or bounds that cannot be meant": [
        f"{AUTOSCALING}::test_what_cannot_be_meant_is_refused",
    ],
    "autoscaling of an application whose lag cannot be read": [
        f"{AUTOSCALING}::test_a_lag_that_cannot_be_read_leaves_the_number_and_is_said",
    ],
    "autoscaling to more workers than tasks": [
        f"{AUTOSCALING}::test_no_worker_is_added_that_would_have_no_task",
    ],
    "a plug-in of another version than the operator": [
        "tests/unit/commands/test_words.py::test_an_operator_of_another_version_is_told_once",
        "tests/kube/test_plugin_words.py::test_every_word_does_on_a_real_api_server_what_it_says",
    ],
}
