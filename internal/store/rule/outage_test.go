package rule_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// TestOutage reports each reason once, and the end of the outage.
func TestOutage(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	o := rule.NewOutage(slog.New(slog.NewTextHandler(&said, nil)))
	full := func(n string) error { return parley.Errorf(parley.CodeUnavailable, "no room").WithHint("try %s", n) }
	o.Kept()
	for _, n := range []string{"1", "2", "3"} {
		o.Failed(full(n), 2)
	}
	o.Failed(errors.New("the disk is gone"), 1)
	o.Failed(full("5"), 0) // alternating reasons
	o.Failed(errors.New("the disk is gone"), 1)
	o.Kept()
	o.Kept()
	o.Failed(full("4"), 1)
	got := said.String()
	if strings.Count(got, "ERROR") != 3 || strings.Count(got, "INFO") != 1 || !strings.Contains(got, "failed=8") || !strings.Contains(got, `hint="try 4"`) {
		t.Errorf("it was said:\n%s", got)
	}
}

// TestOutage_of_many_reasons: reasons that differ only in a number are many. Only some are
// reported.
func TestOutage_of_many_reasons(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	o := rule.NewOutage(slog.New(slog.NewTextHandler(&said, nil)))
	for i := range 1000 {
		o.Failed(fmt.Errorf("attempt %d", i), 1)
	}
	o.Kept()
	if n := strings.Count(said.String(), "ERROR"); n != 20 || !strings.Contains(said.String(), "failed=1000") {
		t.Errorf("%d reasons were said", n)
	}
}
