// Scrolls to the card that a URL or the inbox leads to, and focuses it as soon as it is there.

let wanted = "";

export const cardID = (interaction: string): string => `ask-${interaction}`;

export function showCard(interaction: string): void {
  wanted = interaction;
  const card = document.getElementById(cardID(interaction));
  if (card) reveal(card, interaction);
}

/** Called when a card appears on the page. */
export function reveal(card: HTMLElement, interaction: string): void {
  if (interaction !== wanted) return;
  wanted = "";
  // After the list has scrolled to its end.
  setTimeout(() => {
    card.scrollIntoView({ block: "center" });
    card.focus({ preventScroll: true });
  }, 50);
}
