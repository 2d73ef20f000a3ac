package program

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata" // houses have time zones, and the machine may know none
)

// serverZone is the server's time zone, with a better name than "Local". A zone without a
// known name has only its offset; nil means UTC.
func serverZone() *time.Location {
	if name := strings.TrimPrefix(os.Getenv("TZ"), ":"); name != "" {
		if l, err := time.LoadLocation(name); err == nil {
			return l
		}
	}
	file, _ := filepath.EvalSymlinks("/etc/localtime")
	if _, name, ok := strings.Cut(file, "/zoneinfo/"); ok {
		if l, err := time.LoadLocation(name); err == nil {
			return l
		}
	}
	short, offset := time.Now().Zone()
	if offset == 0 {
		return nil
	}
	return time.FixedZone(cmp.Or(short, "the server's time"), offset)
}
