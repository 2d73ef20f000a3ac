package household

import "testing"

// TestLevelsAndTimes: a number is a level, a time, or neither.
func TestLevelsAndTimes(t *testing.T) {
	t.Parallel()
	for wish, want := range map[string]struct {
		level  float64 // 0: no level
		timing string
	}{
		"turn on the hallway light for 10 minutes":   {0, "for 10 minutes"},
		"turn on the kitchen light at 7pm":           {0, "at 7pm"},
		"turn on the kitchen light at 7":             {0, "at 7"},
		"turn on the kitchen light at 19 30":         {0, "at 19 30"},
		"turn on the bathroom fan for 30 minutes":    {0, "for 30 minutes"},
		"open the garage door in 5 minutes":          {0, "in 5 minutes"},
		"unlock the front door for a minute":         {0, "for a minute"},
		"close the blinds at sunset":                 {0, "at sunset"},
		"turn off the lights when ana leaves":        {0, "when ana leaves"},
		"turn off the heating until tomorrow":        {0, "until tomorrow"},
		"close the blind half an hour before sunset": {0, "before sunset"},
		"turn off the lights every evening":          {0, "every evening"},
		"lock the door in half an hour":              {0, "in half an hour"},
		"set the bathroom to 20 for one hour":        {20, "for one hour"},
		"dim the reading lamp to half":               {50, ""},
		"open the living room blind halfway":         {50, ""},
		"turn on the lamp at 50 %":                   {50, ""},
		"turn on the lamp at 20 percent":             {20, ""},
		"turn on the lamp at 20 percent for 5 min":   {20, "for 5 min"},
		"turn on light 2":                            {0, ""},
		"open the blind to 30":                       {30, ""},
		"set the bedroom at 21":                      {21, ""},
		"set the heating to 21.5 degrees":            {21.5, ""},
		"turn off every light in the house":          {0, ""},
		"turn on night light":                        {0, ""},
		"turn on the night light if possible":        {0, ""},
		"arm the alarm for the night":                {0, ""},
		"turn the heating up to 22":                  {22, ""},
	} {
		d := deedOf(wish, &ask{})
		level := 0.0
		if d.value != nil {
			level = *d.value
		}
		if level != want.level || d.timing != want.timing {
			t.Errorf("%s: level %v, timing %q", wish, level, d.timing)
		}
	}
	if d := deedOf("turn the heating up by two degrees", &ask{}); d.by != 2 || d.timing != "" {
		t.Errorf("by two degrees: %+v", d)
	}
	half := 50.0
	for domain, want := range map[string]string{"cover": "cover.set_cover_position", "light": "light.turn_on", "fan": "fan.set_percentage", "lock": ""} {
		if name, _ := (deed{verb: "open", value: &half}).service(domain); name != want {
			t.Errorf("%s: %s", domain, name)
		}
	}
}
