package program

import (
	"context"
	"log/slog"
	"net/mail"
	"net/url"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/push"
)

// openPush reads the users' devices.
func (p *plan) openPush(ctx context.Context, store push.Store, dropped func(int), log *slog.Logger) (*push.Push, error) {
	o, err := pushOptions(p.settings)
	if err != nil {
		return nil, usage(err)
	}
	o.Logger, o.Dropped = log, dropped
	if v := p.vault.Load(); v != nil && v.Ready() == nil {
		o.Sealer = v
	}
	for name, secret := range map[string]string{"push.vapid_key": o.VAPID, "push.fcm.credentials": string(o.FCM)} {
		if secret != "" {
			p.red.Add(name, secret)
		}
	}
	made, err := push.Open(ctx, store, o)
	if parley.CodeOf(err) == parley.CodeInvalid {
		err = usage(err)
	}
	return made, err
}

func pushOptions(s config.Settings) (push.Options, error) {
	o := push.Options{Allow: s.Push.Allow, Contact: s.Push.Contact, VAPID: s.Push.VAPIDKey, FCMURL: s.Push.FCM.URL}
	if s.Push.FCM.Credentials != "" {
		o.FCM = []byte(s.Push.FCM.Credentials)
	}
	if o.Contact == "" {
		if strings.HasPrefix(s.PublicURL, "https://") {
			o.Contact = s.PublicURL
		}
		return o, nil
	}
	address, isMail := strings.CutPrefix(o.Contact, "mailto:")
	u, err := url.Parse(o.Contact)
	if isMail {
		_, err = mail.ParseAddress(address)
	}
	if err != nil || !isMail && (u.Scheme != "https" || u.Host == "") {
		return o, parley.Errorf(parley.CodeInvalid, "push.contact: %q is neither mailto: and an address nor an https URL", parley.Cut(o.Contact, 100)).
			WithHint("such as mailto:ops@example.com; Apple's push service refuses anything else")
	}
	return o, nil
}
