package parley

import "time"

// DeviceID identifies a device.
type DeviceID string

// DeviceKind says how a device is notified.
type DeviceKind string

const (
	DeviceWebhook DeviceKind = "webhook" // a program: a signed POST to its URL
	DeviceWebPush DeviceKind = "webpush" // a browser, by its push service
	DeviceFCM     DeviceKind = "fcm"     // an app on a phone, by Firebase Cloud Messaging
)

// ForPerson reports whether a person sees what is sent, so that the user's [Notify] applies.
func (k DeviceKind) ForPerson() bool { return k != DeviceWebhook }

// Device is something of a user's that is notified when a turn ends or waits.
type Device struct {
	ID   DeviceID   `json:"id"`
	Kind DeviceKind `json:"kind"`
	Name string     `json:"name"`
	// URL is a webhook's; of a browser, only the origin of its push service is shown.
	URL string `json:"url,omitempty"`
	// Events are types of events such as turn.completed, or turn.* for all that begin so. Empty:
	// all that devices are told of.
	Events []string `json:"events,omitempty"`
	Apps   []string `json:"apps,omitempty"` // empty: all
	Paused bool     `json:"paused,omitempty"`
	// Secret verifies a webhook's messages. Only the answer that made it has it.
	Secret      string    `json:"secret,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	DeliveredAt time.Time `json:"delivered_at,omitzero"` // the last time that something arrived
	Failures    int       `json:"failures,omitempty"`    // attempts that failed since
	LastError   string    `json:"last_error,omitempty"`
	Dropped     int       `json:"dropped,omitempty"` // messages for which there was no room, ever
}

// AddDevice registers a device.
type AddDevice struct {
	Kind   DeviceKind `json:"kind" enum:"webhook,webpush,fcm"`
	Name   string     `json:"name,omitempty" maxLength:"100"`
	Events []string   `json:"events,omitempty" maxItems:"20"`
	Apps   []string   `json:"apps,omitempty" maxItems:"50"`
	// URL is where a webhook's messages are sent.
	URL string `json:"url,omitempty" maxLength:"2000"`
	// Secret of a webhook: whsec_ and 24 to 64 bytes in base64. Empty: a new one is made.
	Secret string `json:"secret,omitempty" maxLength:"120"`
	// Subscription is that of a browser (PushSubscription.toJSON()).
	Subscription *WebPushSubscription `json:"subscription,omitempty"`
	// Token is the registration token of an app on a phone.
	Token string `json:"token,omitempty" maxLength:"4096"`
}

// WebPushSubscription is what a browser's push service gave to a page.
type WebPushSubscription struct {
	Endpoint       string   `json:"endpoint" maxLength:"2000"`
	ExpirationTime *int64   `json:"expirationTime,omitempty" nullable:"true"`
	Keys           PushKeys `json:"keys"`
}

// PushKeys encrypt what is sent to a browser, in base64url.
type PushKeys struct {
	P256DH string `json:"p256dh" maxLength:"120"`
	Auth   string `json:"auth" maxLength:"60"`
}

// UpdateDevice changes a device. What is left out stays.
type UpdateDevice struct {
	Name   *string   `json:"name,omitempty" maxLength:"100"`
	Events *[]string `json:"events,omitempty" maxItems:"20"`
	Apps   *[]string `json:"apps,omitempty" maxItems:"50"`
	Paused *bool     `json:"paused,omitempty"`
	// NewSecret makes a new secret for a webhook. For a day, messages are signed with the old
	// one, too.
	NewSecret bool `json:"new_secret,omitempty"`
}

// Notify is what a user wants to be told on the devices that people look at.
type Notify struct {
	Waits bool `json:"waits"` // when a turn waits for an answer
	Ends  bool `json:"ends"`  // when a turn has ended
	// After leaves out turns that ended within so many seconds: whoever asked is still there.
	After int `json:"after_seconds" minimum:"0" maximum:"86400"`
	// Quiet hours delay what is sent until they are over.
	Quiet *QuietHours `json:"quiet,omitempty"`
}

// QuietHours are the same each day.
type QuietHours struct {
	From string `json:"from" pattern:"^[0-2][0-9]:[0-5][0-9]$"` // such as 22:00
	To   string `json:"to" pattern:"^[0-2][0-9]:[0-5][0-9]$"`
	Zone string `json:"time_zone" maxLength:"60"` // such as Europe/Zurich
}

// DeliveryID identifies a delivery.
type DeliveryID string

// Delivery is a message to a device that has not arrived.
type Delivery struct {
	ID       DeliveryID `json:"id"`
	Device   DeviceID   `json:"device"`
	Type     string     `json:"type"` // of the event, or test
	Session  SessionID  `json:"session,omitempty"`
	Turn     TurnID     `json:"turn,omitempty"`
	At       time.Time  `json:"at"`             // of the event
	Dead     bool       `json:"dead,omitempty"` // it was given up
	Attempts int        `json:"attempts"`
	NextAt   time.Time  `json:"next_at,omitzero"`
	Error    string     `json:"error,omitempty"` // of the last attempt
}

// PushInfo is what a client needs to register a device.
type PushInfo struct {
	Kinds []DeviceKind `json:"kinds" nullable:"false"`
	// Key is the server's public key for browsers (VAPID), in base64url.
	Key string `json:"key,omitempty"`
}
