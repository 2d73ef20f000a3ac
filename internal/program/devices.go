package program

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
)

func newDevices(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "devices", Short: "What is told when your turns end or wait: webhooks, browsers, phones", Args: cobra.NoArgs,
		Long: `What is told when your turns end or wait for an answer.

Programs are told by webhooks, which are added here. Browsers and apps on phones
register themselves: on a page of Parley, choose Notifications.`,
	}
	list := &cobra.Command{
		Use: "list", Short: "List your devices", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				found, err := l.Devices(ctx)
				if err == nil && len(found) == 0 {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), "You have no devices.")
				}
				for _, d := range found {
					if err == nil {
						_, err = fmt.Fprintln(cmd.OutOrStdout(), deviceLine(d))
					}
				}
				return err
			})
		},
	}
	var a parley.AddDevice
	add := &cobra.Command{
		Use: "add URL", Short: "Add a webhook, and print its secret", Args: listed(cobra.ExactArgs(1), "such as https://example.com/parley"),
		Long: `Add a webhook: a signed POST to the URL for each event (Standard Webhooks). The
secret that verifies the signatures is printed once. What is not answered with 2xx
is sent again for three days, with the same Webhook-Id.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Kind, a.URL = parley.DeviceWebhook, args[0]
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				made, err := l.AddDevice(ctx, a)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\nsecret: %s\n", deviceLine(made), made.Secret)
				return err
			})
		},
	}
	add.Flags().StringVar(&a.Name, "name", "", "a name for it")
	add.Flags().StringSliceVar(&a.Events, "events", nil, "`types` of events, such as turn.*,interaction.opened (default: all that devices are told of)")
	add.Flags().StringSliceVar(&a.Apps, "apps", nil, "apps (default: all)")
	device := func(name, short, said string, do func(ctx context.Context, l *link, id parley.DeviceID) error) *cobra.Command {
		return &cobra.Command{
			Use: name + " ID", Short: short, Args: listed(cobra.ExactArgs(1), "parley devices list shows the ids"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.with(cmd, 0, func(ctx context.Context, l *link) error {
					if err := do(ctx, l, parley.DeviceID(args[0])); err != nil {
						return err
					}
					_, err := fmt.Fprintln(cmd.OutOrStdout(), said)
					return err
				})
			},
		}
	}
	paused := func(yes bool) func(ctx context.Context, l *link, id parley.DeviceID) error {
		return func(ctx context.Context, l *link, id parley.DeviceID) error {
			_, err := l.UpdateDevice(ctx, id, parley.UpdateDevice{Paused: &yes})
			return err
		}
	}
	cmd.AddCommand(list, add, failedDeliveries(f),
		device("remove", "Remove a device", "The device has been removed.", func(ctx context.Context, l *link, id parley.DeviceID) error { return l.RemoveDevice(ctx, id) }),
		device("test", "Send a device a test", "A test will be sent.", func(ctx context.Context, l *link, id parley.DeviceID) error { return l.TestDevice(ctx, id) }),
		device("pause", "Tell a device nothing for now", "The device is paused.", paused(true)),
		device("unpause", "Tell a device again", "The device is told again.", paused(false)),
	)
	return cmd
}

// failedDeliveries is about what has not arrived.
func failedDeliveries(f *flags) *cobra.Command {
	var again, drop string
	cmd := &cobra.Command{
		Use: "failed", Short: "List what has not arrived at your devices, send it again or drop it", Args: cobra.NoArgs,
		Long: `List what has not arrived at your devices: what is tried again later, and what was
given up after three days, which is kept for 30 days.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				out := cmd.OutOrStdout()
				switch {
				case again != "":
					if err := l.RetryDelivery(ctx, parley.DeliveryID(again)); err != nil {
						return err
					}
					_, err := fmt.Fprintln(out, "It will be sent again.")
					return err
				case drop != "":
					if err := l.DropDelivery(ctx, parley.DeliveryID(drop)); err != nil {
						return err
					}
					_, err := fmt.Fprintln(out, "It has been dropped.")
					return err
				}
				n := 0
				for _, dead := range []bool{false, true} {
					found, err := l.Deliveries(ctx, dead)
					if err != nil {
						return err
					}
					for _, d := range found {
						n++
						if _, err := fmt.Fprintln(out, deliveryLine(d)); err != nil {
							return err
						}
					}
				}
				if n == 0 {
					_, err := fmt.Fprintln(out, "Everything has arrived.")
					return err
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&again, "retry", "", "`ID` of what is sent again")
	cmd.Flags().StringVar(&drop, "drop", "", "`ID` of what is dropped")
	cmd.MarkFlagsMutuallyExclusive("retry", "drop")
	return cmd
}

func deviceLine(d parley.Device) string {
	state := "nothing has arrived yet"
	switch {
	case d.Paused && d.LastError != "":
		state = "paused: " + d.LastError
	case d.Paused:
		state = "paused"
	case d.Failures > 0:
		state = fmt.Sprintf("%s: %s", count(d.Failures, "failure", "failures"), d.LastError)
	case !d.DeliveredAt.IsZero():
		state = "works, last " + d.DeliveredAt.Local().Format(time.DateTime)
	}
	line := fmt.Sprintf("%s  %-8s %s  %s", d.ID, d.Kind, d.Name, state)
	if d.URL != "" {
		line += "\n  " + d.URL
	}
	if len(d.Events) > 0 {
		line += "\n  " + strings.Join(d.Events, ", ")
	}
	if len(d.Apps) > 0 {
		line += "\n  only of " + strings.Join(d.Apps, ", ")
	}
	return line
}

func deliveryLine(d parley.Delivery) string {
	state := "waits"
	switch {
	case d.Dead:
		state = "given up"
	case !d.NextAt.IsZero():
		state = "next try " + d.NextAt.Local().Format(time.DateTime)
	}
	line := fmt.Sprintf("%s\n  %s of %s to %s, %s, %s", d.ID, d.Type, d.At.Local().Format(time.DateTime), d.Device, count(d.Attempts, "attempt", "attempts"), state)
	if d.Error != "" {
		line += ": " + d.Error
	}
	return line
}
