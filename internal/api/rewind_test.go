package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestRewind_over_the_api: a preview changes nothing and says what would be done; the rewind does it
// once for each key, is shown by the session, its turns and its log, and can be undone.
func TestRewind_over_the_api(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	path := "/v1/sessions/" + string(s.ID)
	var turns [3]parley.TurnInfo
	for i := range turns {
		w.call(202, &turns[i], "POST", path+"/turns", fmt.Sprintf(`{"message":"hello %d"}`, i))
		w.call(200, nil, "POST", "/v1/turns/"+string(turns[i].ID)+"/await", "")
	}
	var seen, did, again, back parley.RewindResult
	to := fmt.Sprintf(`"turn":%q`, turns[1].ID)
	w.call(200, &seen, "POST", path+"/rewind", `{`+to+`,"preview":true}`)
	if len(seen.Turns) != 2 || seen.Message != "hello 1" || seen.Seq != 0 || seen.ID != "" || seen.Files == nil || seen.Effects == nil {
		t.Errorf("the preview is %+v", seen)
	}
	body := fmt.Sprintf(`{%s,"expected_version":%d}`, to, seen.Version)
	w.call(200, &did, "POST", path+"/rewind", body, "Idempotency-Key", "r")
	w.call(200, &again, "POST", path+"/rewind", body, "Idempotency-Key", "r")
	if diff := cmp.Diff(did, again); diff != "" || did.Seq == 0 || did.Client != "api" {
		t.Errorf("done again it is %+v:\n%s", did, diff)
	}
	w.call(422, nil, "POST", path+"/rewind", `{`+to+`}`, "Idempotency-Key", "r")
	w.call(409, nil, "POST", path+"/rewind", `{`+to+`}`)
	var info parley.SessionInfo
	w.call(200, &info, "GET", path, "")
	if info.Rewound == nil || info.Rewound.Seq != did.Seq || info.Totals.Turns != 3 {
		t.Errorf("the session is %+v", info)
	}
	var list struct{ Turns []parley.TurnInfo }
	w.call(200, &list, "GET", path+"/turns", "")
	if len(list.Turns) != 3 || list.Turns[0].Rewound != did.Seq || list.Turns[2].Rewound != 0 {
		t.Errorf("its turns are %+v", list.Turns)
	}
	w.call(200, &back, "POST", path+"/rewind", fmt.Sprintf(`{"undo":%d}`, did.Seq))
	if len(back.Back) != 2 || len(back.Turns) != 0 || back.Undoes != did.Seq {
		t.Errorf("undone: %+v", back)
	}
	if log := w.rig.Log(s.ID); enginetest.CheckLog(log) != nil {
		t.Error(enginetest.CheckLog(log))
	}
	w.call(http.StatusNotFound, nil, "POST", "/v1/sessions/01ARZ3NDEKTSV4RRFFQ69G5FAV/rewind", `{"undo":1}`)
}
