package auth

import "time"

// CountWrongs counts n wrong keys from n addresses, and returns how many are remembered.
func CountWrongs(n int, by func(int) string) int {
	var w wrongs
	for i := range n {
		w.count(by(i), time.Unix(0, 0))
	}
	return max(len(w.by), w.order.Len())
}
