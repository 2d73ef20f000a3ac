import { useMemo, type ReactNode } from "react";

import type { Property } from "../../files/frontmatter.ts";
import { oneLine } from "../../ui/tame.ts";
import type { Current } from "./foresee.ts";
import { fieldsOf, type FieldChange } from "./front.ts";

/** What becomes of the values of an entity's front matter: for each what it is now, and what it will be. */
export default function FrontChange({ front, now, path }: { front: Readonly<Record<string, unknown>>; now: Current; path: string }) {
  const { fields, note } = useMemo(() => fieldsOf(front, now), [front, now]);
  return (
    <>
      {note !== "" && <p className="border-b border-border px-3.5 py-1.5 text-text-muted">{note}</p>}
      <dl aria-label={`Values of ${path} that change`} data-front className="grid grid-cols-[fit-content(40%)_minmax(0,1fr)] gap-x-4 gap-y-1 px-3.5 py-2">
        {fields.map((f) => (
          <div key={f.name} className="contents">
            <dt className="min-w-16 wrap-anywhere text-text-muted">{oneLine(f.name, 60)}</dt>
            <dd className="flex min-w-0 flex-wrap items-baseline gap-x-2 gap-y-0.5">
              <Field field={f} />
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function Field({ field: { what, before, after } }: { field: FieldChange }): ReactNode {
  const old = before && <Value of={before} />;
  const fresh = after && <Value of={after} />;
  switch (what) {
    case "changed":
      return (
        <>
          <del className="min-w-0 text-danger">
            <span className="sr-only">now: </span>
            {old}
          </del>
          <span aria-hidden="true" className="text-text-muted">→</span>
          <ins className="min-w-0 text-added no-underline">
            <span className="sr-only">then: </span>
            {fresh}
          </ins>
        </>
      );
    case "removed":
      return (
        <>
          {old && <del className="min-w-0 text-danger">{old}</del>}
          <Said>{old ? "is removed" : "is removed, if the page has it"}</Said>
        </>
      );
    case "new":
      return (
        <>
          <ins className="min-w-0 text-added no-underline">{fresh}</ins>
          <Said>is new</Said>
        </>
      );
    case "set":
      return <ins className="min-w-0 text-added no-underline">{fresh}</ins>;
    case "same":
      return (
        <>
          <span className="min-w-0">{fresh}</span>
          <Said>stays as it is</Said>
        </>
      );
    case "absent":
      return <Said>is to be removed, but the page does not have it</Said>;
  }
}

const Said = ({ children }: { children: string }) => <span className="text-xs text-text-muted">{children}</span>;

/** Values of a list are set apart, as the page of the entity does it. */
function Value({ of: { values, list } }: { of: Property }) {
  if (values.length === 0) return <span className="italic">{list ? "an empty list" : "nothing"}</span>;
  if (!list) return <bdi className="wrap-anywhere">{oneLine(values[0] ?? "", 500)}</bdi>;
  return (
    <span className="inline-flex min-w-0 flex-wrap gap-1">
      {values.map((v, i) => (
        <bdi key={i} className="rounded-md bg-bubble px-1.5 wrap-anywhere [del_&]:line-through">{oneLine(v, 120)}</bdi>
      ))}
    </span>
  );
}
