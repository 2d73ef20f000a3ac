//go:build claude

package real_test

import (
	"testing"

	"github.com/parley-server/parley/internal/runtime/claudecli/claudetest"
)

func TestProbe(t *testing.T) { claudetest.Probe(t, claudetest.CLI{Real: true, Path: cli}) }
