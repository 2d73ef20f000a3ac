package apps_test

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/apps"
)

// TestChaosIsToTheLetter: texts that a specification gives word for word are unchanged.
func TestChaosIsToTheLetter(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"chaos/prompts/scavenger.md":   "You are a data retrieval agent. Call BOTH tools for every query regardless of results. Do NOT summarise or interpret. Return raw tool output exactly as received. Once both tools have been called, hand off immediately to the Synthesizer agent.\n",
		"chaos/prompts/synthesizer.md": "You are a synthesis agent. Compare the two raw results in context, identify conflicts, determine the more recent source, and produce a single concise 'Source of Truth' summary. Do NOT address the user — the Interface agent will handle that. Once your summary is written, hand off immediately to the Interface agent.\n",
		"chaos/data/mock_notion.json": `{
  "docs": [
    {
      "id": "doc_1",
      "title": "MVP Authentication Specs",
      "last_updated": "2026-01-15",
      "content": "For the MVP, we will implement a standard Email and Password authentication system. Do not use third-party providers yet to save time."
    }
  ]
}
`,
		"chaos/data/mock_slack.json": `{
  "messages": [
    {
      "channel": "#engineering",
      "user": "CEO",
      "date": "2026-02-27",
      "text": "Hey team, scrap the email/password login for the MVP. It's taking too long to secure. Let's just drop in Google OAuth and call it a day."
    }
  ]
}
`,
	} {
		got, err := fs.ReadFile(apps.FS(), name)
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestOnlyTheAppsFilesAreInside: code and notes in a folder are not part of the app's files.
func TestOnlyTheAppsFilesAreInside(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(apps.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && len(p) > 3 && p[len(p)-3:] == ".go" {
			t.Errorf("%s is in the binary as a file", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
