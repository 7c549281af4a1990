// The page: sections in the order of the questions that they answer.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ComparedSection } from "./compared";
import type { Data } from "./data";
import { Head } from "./head";
import { Help } from "./help";
import { MemorySection } from "./memory";
import { NavigationContext, useHash } from "./navigation";
import {
  BreakdownSection,
  CollectivesSection,
  KernelsSection,
  PathSection,
  StepsSection,
} from "./sections";
import { SimulatedSection } from "./simulated";
import { FidelitySection, LinkSection, TablesSection, tablesOf } from "./tables";
import { useTheme } from "./theme";
import { Timelines } from "./timeline/timeline";
import { TreeSection } from "./tree/section";

interface Part {
  id: string;
  /** In the navigation. */
  short: string;
  title: string;
  content: ComponentChildren;
}

/** The sections that there is something to say in. */
function parts(data: Data, theme: string): Part[] {
  const steps = data.ranks.some((rank) => rank.steps?.length > 0);
  const rows = data.ranks.some((rank) => rank.breakdown.length > 0);
  const all: (Part | false)[] = [
    data.compared !== null && {
      id: "compared",
      short: "Compared",
      title: "What changed",
      content: <ComparedSection compared={data.compared} />,
    },
    data.simulated !== null && {
      id: "simulated",
      short: "Simulated",
      title: "Simulated and measured",
      content: <SimulatedSection simulated={data.simulated} />,
    },
    steps && {
      id: "steps",
      short: "Steps",
      title: "Step times",
      content: <StepsSection data={data} theme={theme} />,
    },
    rows && {
      id: "breakdown",
      short: "Device time",
      title: "Where device time goes",
      content: <BreakdownSection data={data} />,
    },
    data.ranks.some((rank) => rank.critical_path) && {
      id: "path",
      short: "Critical path",
      title: "What is on the critical path",
      content: <PathSection data={data} />,
    },
    data.met !== null &&
      data.met.skews.length > 0 && {
        id: "collectives",
        short: "Ranks",
        title: "Stragglers: who waits for whom",
        content: <CollectivesSection data={data} met={data.met} theme={theme} />,
      },
    rows && {
      id: "kernels",
      short: "Kernels",
      title: "Kernels",
      content: <KernelsSection data={data} />,
    },
    data.trees !== null && {
      id: "calls",
      short: "Calls",
      title: "Call tree",
      content: <TreeSection data={data} trees={data.trees} />,
    },
    data.timelines.length > 0 && {
      id: "timeline",
      short: "Timeline",
      title: "Timeline",
      content: <Timelines data={data} theme={theme} />,
    },
    data.ranks.some((rank) => rank.memory_charts.length > 0) && {
      id: "memory",
      short: "Memory",
      title: "Memory over time",
      content: <MemorySection data={data} theme={theme} />,
    },
    data.ranks.some((rank) => tablesOf(rank).length > 0) && {
      id: "tables",
      short: "Tables",
      title: "More tables",
      content: <TablesSection data={data} />,
    },
    data.ranks.some((rank) => rank.link) && {
      id: "link",
      short: "Linking",
      title: "How the traces were linked",
      content: <LinkSection data={data} />,
    },
    data.ranks.some((rank) => rank.figures) && {
      id: "fidelity",
      short: "Fidelity",
      title: "How accurate the graph is",
      content: <FidelitySection data={data} />,
    },
  ];
  return all.filter((part): part is Part => part !== false);
}

export function App({ data }: { data: Data }) {
  const [theme, turn] = useTheme();
  const navigation = useHash(data);
  const [help, setHelp] = useState(false);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const typing =
        event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (typing || event.ctrlKey || event.metaKey || event.altKey) {
        return;
      }
      if (event.key === "/") {
        document.getElementById("search")?.focus();
        event.preventDefault();
      } else if (event.key === "?") {
        setHelp(true);
      }
    };
    document.addEventListener("keydown", keys);
    return () => document.removeEventListener("keydown", keys);
  }, []);
  const sections = parts(data, theme);
  /** The hash has more than the section, so that the browser cannot follow it. */
  const goTo = (section: string) => (event: MouseEvent) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      navigation.go({ section });
    }
  };
  const skip = (event: MouseEvent) => {
    event.preventDefault();
    const main = document.getElementById("main");
    main?.scrollIntoView();
    main?.focus();
  };
  return (
    <NavigationContext.Provider value={navigation}>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the report
      </a>
      <header>
        <h1>{data.title}</h1>
        <nav aria-label="Sections">
          {sections.map(({ id, short }) => (
            <a key={id} href={`#${id}`} onClick={goTo(id)}>
              {short}
            </a>
          ))}
        </nav>
        <div class="buttons">
          <button
            type="button"
            onClick={turn}
            aria-label={`Switch to ${theme === "dark" ? "light" : "dark"} colours`}
          >
            {theme === "dark" ? "☀ Light" : "☾ Dark"}
          </button>
          <button type="button" onClick={() => setHelp(true)} aria-label="Help: keys">
            ?
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Head data={data} />
        {sections.map(({ id, title, content }) => (
          <section id={id} key={id} aria-labelledby={`${id}-title`}>
            <h2 id={`${id}-title`}>{title}</h2>
            {content}
          </section>
        ))}
      </main>
      <footer>
        Written by {data.written_by}. Times are as recorded; figures are those of{" "}
        <code>etlink analyze</code>, <code>ranks</code>, <code>link</code> and <code>replay</code>.
      </footer>
      <Help open={help} close={() => setHelp(false)} />
    </NavigationContext.Provider>
  );
}
