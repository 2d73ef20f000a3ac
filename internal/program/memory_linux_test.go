package program

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestLeaveProgram: the pages of the program's file leave the process, and it goes on.
func TestLeaveProgram(t *testing.T) {
	before := ofFiles(t)
	if err := leaveProgram(); err != nil {
		t.Fatal(err)
	}
	if after := ofFiles(t); after > before*3/4 {
		t.Errorf("%d KB of files are in memory after %d KB, want fewer", after, before)
	}
}

// ofFiles is how many KB of files the process has in memory.
func ofFiles(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
