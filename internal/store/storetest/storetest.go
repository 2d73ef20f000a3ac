// Package storetest is the suite that every implementation of seam.Store must pass.
//
// An implementation's own test calls [Run], and [Random] to be compared with package
// mem, which is the model. What only one implementation has, such as a file or a
// network, is tested beside it. The suite goes through every method of the interface by
// reflection: a new method without a case in the isolation table fails.
package storetest

import (
	"context"
	"testing"

	"github.com/parley-server/parley/internal/seam"
)

// Body is the implementation under test.
type Body struct {
	// Open returns a new, empty store that is closed when the test ends.
	Open func(testing.TB) seam.Store
	// Reopen closes a store that Open made and returns one over the same data. It is nil
	// for an implementation that keeps nothing.
	Reopen func(testing.TB, seam.Store) seam.Store
}

// Run runs the suite.
func Run(t *testing.T, b Body) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, seam.Store)
	}{
		{"append_then_read_gives_the_same", appendRead},
		{"a_batch_is_all_or_nothing", atomic},
		{"a_stale_epoch_is_fenced", fencing},
		{"an_append_at_the_wrong_place_conflicts", conflict},
		{"a_session_is_made_once", created},
		{"malformed_batches_are_invalid", malformed},
		{"concurrent_appenders_leave_no_gap", concurrent},
		{"many_sessions_at_once", manySessions},
		{"unknown_and_condensed_events_are_carried", carried},
		{"steps_can_be_condensed", condensed},
		{"large_and_strange_text_comes_back", strange},
		{"read_pages", readPages},
		{"read_pages_by_bytes", readBytes},
		{"fork_copies_up_to_a_point", fork},
		{"a_fork_within_an_append_has_what_its_events_refer_to", forkWithin},
		{"forks_of_forks_outlive_their_parents", forks},
		{"condensing_takes_nothing_from_a_fork", condensedForks},
		{"forks_take_little_space", room},
		{"logs_that_grew_in_turns", interleaved},
		{"a_fork_has_the_turns_that_had_ended", forkedTurns},
		{"a_fork_has_the_interactions_that_had_ended", forkedInteractions},
		{"delete_removes_everything", deleted},
		{"delete_wins_over_every_epoch", deleteFences},
		{"the_state_is_the_last_stored", state},
		{"sessions_are_listed_newest_change_first", sessions},
		{"turns_are_listed_newest_first", turns},
		{"open_interactions_are_listed_oldest_first", interactions},
		{"open_interactions_are_paged_and_counted", inbox},
		{"overdue_interactions_are_found", due},
		{"sessions_at_rest_are_listed_longest_first", resting},
		{"spending_adds_up_and_stays", spent},
		{"held_bytes_add_up_and_are_given_back", held},
		{"lists_are_bounded", bounded},
		{"pages_of_sessions_have_no_gaps_or_repeats", sessionPages},
		{"pages_of_sessions_at_rest_have_no_gaps_or_repeats", restPages},
		{"pages_of_sessions_with_old_steps_have_no_gaps_or_repeats", stepsPages},
		{"pages_of_turns_have_no_gaps_or_repeats", turnPages},
		{"pages_of_large_rows_end_early", largeRows},
		{"pages_of_interactions_have_no_gaps_or_repeats", interactionPages},
		{"pages_of_overdue_interactions_have_no_gaps_or_repeats", duePages},
		{"a_key_is_taken_once", keys},
		{"the_key_of_a_deleted_session_stays_taken", keysOfDeleted},
		{"an_outside_id_is_taken_once", aliases},
		{"artifacts_and_blobs", blobs},
		{"what_is_sealed_is_each_users_own", sealed},
		{"approvals_are_each_users_own", approvals},
		{"rows_are_each_users_own", ownRows},
		{"rows_are_put_at_the_version_that_was_read", rowVersions},
		{"a_due_row_is_claimed_by_one", rowClaims},
		{"rows_are_written_with_the_append", rowsOfAppends},
		{"rows_of_a_session_go_with_it", rowsOfSessions},
		{"rows_are_limited", rowLimits},
		{"pages_of_rows_have_no_gaps_or_repeats", rowPages},
		{"pages_of_due_rows_have_no_gaps_or_repeats", dueRowPages},
		{"apps_have_tables_of_their_own", appTables},
		{"chunks_are_kept_until_dropped", chunks},
		{"chunks_of_the_previous_owner_are_dropped", staleChunks},
		{"a_session_is_not_taken_from_a_node_that_is_alive", claims},
		{"a_cancelled_call_that_had_not_begun_does_nothing", cancelled},
		{"after_close_everything_is_unavailable", closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, b.Open(t))
		})
	}
	t.Run("others_see_nothing", func(t *testing.T) {
		t.Parallel()
		isolation(t, b)
	})
	if b.Reopen != nil {
		t.Run("reopening_changes_nothing", func(t *testing.T) {
			t.Parallel()
			s := b.Open(t)
			for _, p := range []int{0, 1, 2} {
				newWorld(t, s, people[p], string(rune('A'+p)))
			}
			before := dump(t, s)
			s = b.Reopen(t, s)
			equal(t, "everything after reopening", dump(t, s), before)
			if epoch, err := s.Claim(context.Background(), ann, "A-session", "again"); err != nil || epoch != 2 {
				t.Errorf("got epoch %d, %v, want 2", epoch, err)
			}
		})
	}
}
