package claudecli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-server/parley"
)

// planning takes the place of what the CLI says about work in plan mode. By itself it asks for a file
// with the plan, and in plan mode nothing is written here.
const planning = "Look into the question with tools that only read. Nothing can be written now, not even a file with the plan. " +
	"When the plan is ready, call ExitPlanMode with the whole plan, as Markdown, in its input `plan`."

// completePlan gives a call of ExitPlanMode the plan, which the CLI's model has written to a file.
func (t *turn) completePlan(parts []parley.Part) {
	for i, p := range parts {
		if p.Type != parley.PartToolCall || p.Name != parley.ToolExitPlan {
			continue
		}
		var in map[string]any
		if json.Unmarshal(p.Input, &in) != nil || in == nil {
			continue
		}
		if plan, _ := in["plan"].(string); strings.TrimSpace(plan) != "" {
			continue
		}
		if plan := newestPlan(filepath.Join(t.p.spec.config(), "plans")); plan != "" {
			in["plan"] = plan
			if raw, err := json.Marshal(in); err == nil {
				parts[i].Input = raw
			}
		}
	}
}

// maxPlan limits a plan, in bytes.
const maxPlan = 64 << 10

// newestPlan is the plan that was written last.
func newestPlan(dir string) string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var newest os.FileInfo
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), ".md") && (newest == nil || info.ModTime().After(newest.ModTime())) {
			newest = info
		}
	}
	if newest == nil {
		return ""
	}
	body, err := os.ReadFile(filepath.Join(dir, newest.Name()))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(parley.Cut(string(body), maxPlan), "\ufffd")
}
