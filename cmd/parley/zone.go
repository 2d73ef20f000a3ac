package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata" // a house has a zone, and the machine may know none
)

// serverZone is the server's time zone, by a name that says more than "Local". A
// zone whose name can not be found out is known by its offset alone, and is nil
// where that is UTC's.
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
