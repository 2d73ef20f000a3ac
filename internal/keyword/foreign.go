package keyword

import (
	"strings"
	"unicode"
)

// foreign holds frequent words of German, French, Spanish, Portuguese, Italian and Dutch that
// are not English words.
var foreign = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`
		wie wer wann wo warum welche welcher welches ist sind der das und nicht ein eine einen im ich wir haben hat gibt bitte auf mit von zu mir den dem es wurde kann noch für ob
		quel quelle quels quelles est sont le les des une du pour avec dans pas que qui quand où pourquoi comment combien nous vous il elle ce cette sur ont fait y-a-t-il au aux été mon ma
		qué cuál cuándo dónde cómo quién por está están el los las una con para del hay cuánto cuanto cuando donde como quien esta estan mi se
		la el de en qual quando onde quem são os um uma não na foi tem quanto há meu minha da ao
		che cosa quale dove perché chi sono gli di della nel nella c'è quanto quanti mio mia si
		wat wanneer waar waarom hoe zijn het een niet voor met van wie er op hoeveel mijn naar`) {
		m[w] = true
	}
	return m
}()

// Foreign reports whether a text seems to be in a language other than English, judged by its
// commonest words and its script. A name or a quoted word in an English text does not make it
// foreign.
func Foreign(text string) bool {
	english, other, letters, far := 0, 0, 0, 0
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
			if !unicode.Is(unicode.Latin, r) {
				far++
			}
		}
	}
	if far*2 > letters {
		return true
	}
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '-' }) {
		w = strings.ToLower(w)
		if _, after, ok := strings.Cut(w, "'"); ok && len(after) > 2 && !IsStop(w) { // d'authentification
			other++
			continue
		}
		switch {
		case foreign[w]:
			other++
		case IsStop(w):
			english++
		}
	}
	return other >= 2 && other > english
}
