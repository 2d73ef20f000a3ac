package proc_test

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/proc"
)

// TestReap: where orphans become children of this process, none of them stays as a zombie.
func TestReap(t *testing.T) {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	become := func(yes uintptr) {
		if _, _, e := syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, yes, 0); e != 0 {
			t.Fatal(e)
		}
		proc.Adopts(yes == 1)
	}
	become(1)
	defer become(0)
	out, _, err := run(t, proc.Spec{Args: []string{sh, "-c", `(sleep 1000 & sleep 1000) >/dev/null & (:) & echo $$`}, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	group, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(patience); !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH); runtime.Gosched() {
		if time.Now().After(late) {
			t.Fatal("something of the group is left")
		}
	}
}
