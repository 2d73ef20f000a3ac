package engine

import "github.com/parley-server/parley"

// leastOutput is the lowest cap on a reply, in tokens: below it every answer would be cut
// off.
const leastOutput = 256

// checkSampling checks the caller's settings for the model, which a fixed model does not
// allow.
func checkSampling(app *parley.App, own *parley.Policy, temperature *float64, output *int64) error {
	if temperature == nil && (output == nil || *output == 0) {
		return nil
	}
	if err := fixedModel(app, own); err != nil {
		return err
	}
	if temperature != nil && (*temperature < 0 || *temperature > 2) {
		return parley.Errorf(parley.CodeInvalid, "temperature is %g", *temperature).WithField("temperature").WithHint("from 0 to 2")
	}
	if output != nil && *output != 0 && *output < leastOutput {
		return parley.Errorf(parley.CodeInvalid, "max_output is %d tokens", *output).WithField("max_output").WithHint("at least %d, or 0 for the agent's own", leastOutput)
	}
	return nil
}

// mayModel checks an update of the model's settings.
func (s *session) mayModel(c parley.UpdateSession) error {
	other := c.Model != nil && *c.Model != s.view.Model
	if !other && c.Temperature == nil && c.MaxOutput == nil {
		return nil
	}
	app, err := s.e.appOf(s.view.App)
	if err != nil {
		return err
	}
	if err := checkSampling(app.App(), s.view.Policy, c.Temperature, c.MaxOutput); err != nil || !other {
		return err
	}
	if err := fixedModel(app.App(), s.view.Policy); err != nil {
		return err
	}
	if *c.Model != "" {
		_, err = s.e.o.Models.Model(*c.Model)
	}
	return err
}
