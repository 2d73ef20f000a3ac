package edge

import "syscall"

// reserve are the descriptors for everything that is no connection of a client:
// the store, files, connections to models and services.
const reserve = 256

// descriptors is how many connections the process may have, up to most.
func descriptors(most int) int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur >= uint64(most+reserve) {
		return most
	}
	return max(int(limit.Cur)-reserve, 64) //nolint:gosec // small
}
