package keyword_test

import (
	"testing"

	"github.com/parley-server/parley/internal/keyword"
)

func TestForeign(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"Wie warm ist es im Schlafzimmer?":                                   true,
		"Ist das Garagentor zu?":                                             true,
		"Quelle méthode d'authentification utilise-t-on pour le MVP ?":       true,
		"¿Está abierta la ventana del dormitorio?":                           true,
		"Qual é a temperatura na cozinha?":                                   true,
		"Quanto è calda la camera? Dove sono gli ospiti?":                    true,
		"Is het raam in de keuken open? Wat is de temperatuur van het huis?": true,
		"Какая температура в спальне?":                                       true,
		"寝室の温度は?":                                                            true,
		"Is the front door locked?":                                          false,
		"How warm is it in the Schlafzimmer?":                                false,
		"who decided on das Boot":                                            false,
		"lights off":                                                         false,
		"Is the die cast?":                                                   false,
		"":                                                                   false,
		"temperature in bedroom":                                             false,
		"what's o'clock in Ana's room":                                       false,
		"el wifi?":                                                           false,
	} {
		if got := keyword.Foreign(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
