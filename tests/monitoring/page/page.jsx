// Draws one dashboard with Grafana's own components (its packages @grafana/ui and @grafana/data).
// `window.dashboard` has the title, the span of time and the panels with their series; pictures.py writes it.
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import { createRoot } from 'react-dom/client';
import { createTheme, dateTime, FieldColorModeId, FieldType, getDisplayProcessor, ThemeContext, ThresholdsMode, toDataFrame } from '@grafana/data';
import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueTextMode, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';

const CELL = 30, GAP = 8, MARGIN = 16, ROW = 30;
const theme = createTheme({ colors: { mode: 'light' } });
const { title, from, to, width, panels } = window.dashboard;
const column = (width - 2 * MARGIN + GAP) / 24;
const range = { from: dateTime(from), to: dateTime(to), raw: { from: dateTime(from), to: dateTime(to) } };
const base = { mode: ThresholdsMode.Absolute, steps: [{ value: -Infinity, color: 'green' }] };
// What Grafana adds to a time series panel that does not say otherwise.
const lines = {
  drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', spanNulls: false,
  insertNulls: false, showPoints: 'auto', pointSize: 5, barAlignment: 0, barWidthFactor: 0.6, axisPlacement: 'auto', axisLabel: '',
  axisColorMode: 'text', axisBorderShow: false, scaleDistribution: { type: 'linear' }, axisCenteredZero: false,
  hideFrom: { tooltip: false, viz: false, legend: false }, thresholdsStyle: { mode: 'off' },
  stacking: { mode: 'none', group: 'A' },
};

function frames(panel) {
  const { defaults, overrides } = panel.fieldConfig;
  return panel.series.map((one, index) => {
    const chosen = overrides.find((override) => override.matcher.options === one.name)?.properties[0].value;
    const frame = toDataFrame({
      name: one.name,
      fields: [
        { name: 'Time', type: FieldType.time, values: one.times, config: {} },
        {
          name: one.name, type: FieldType.number, values: one.values,
          config: {
            ...defaults, displayName: one.name,
            color: chosen ?? { mode: panel.type === 'stat' ? FieldColorModeId.Thresholds : FieldColorModeId.PaletteClassic },
            thresholds: defaults.thresholds ? { ...defaults.thresholds, steps: defaults.thresholds.steps.map((step) => ({ ...step, value: step.value ?? -Infinity })) } : base,
            custom: { ...lines, ...defaults.custom },
          },
        },
      ],
    });
    frame.fields.forEach((field, at) => {
      field.display = getDisplayProcessor({ field, theme });
      field.state = { displayName: at ? one.name : 'Time', seriesIndex: index, origin: { frameIndex: index, fieldIndex: at } };
    });
    return frame;
  });
}

function Stat({ panel, width, height }) {
  const field = frames(panel)[0].fields[1];
  return (
    <div data-stat>
      <BigValue
        width={width} height={height} theme={theme} colorMode={BigValueColorMode.Value} graphMode={BigValueGraphMode.None}
        textMode={BigValueTextMode.Value} value={field.display(field.values.at(-1))}
      />
    </div>
  );
}

function Panel({ panel }) {
  const { x, y, w, h } = panel.gridPos;
  const place = {
    position: 'absolute', left: MARGIN + x * column, top: MARGIN + 2 * ROW + y * (CELL + GAP),
    width: w * column - GAP, height: h * CELL + (h - 1) * GAP,
  };
  if (panel.type === 'row') return <div style={{ ...place, font: '500 16px Inter', paddingTop: 6 }}>{panel.title}</div>;
  return (
    <div style={place} data-panel={panel.title}>
      <PanelChrome title={panel.title} width={place.width} height={place.height}>
        {(width, height) =>
          panel.type === 'stat' ? <Stat panel={panel} width={width} height={height} /> : (
            <TimeSeries
              frames={frames(panel)} structureRev={1} width={width} height={height} timeRange={range} timeZone="utc"
              legend={{ showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [], ...panel.options?.legend }} options={{}}
            />
          )
        }
      </PanelChrome>
    </div>
  );
}

const bottom = Math.max(...panels.map((one) => one.gridPos.y + one.gridPos.h));
// The titles of what is not drawn yet; '' when all is.
window.missing = () =>
  [...document.querySelectorAll('[data-panel]')]
    .filter((one) => !one.querySelector('canvas, [data-stat]'))
    .map((one) => one.dataset.panel)
    .concat(document.fonts.status === 'loaded' ? [] : ['fonts'], document.querySelector('[data-panel]') ? [] : ['all'])
    .join(', ');

createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div id="dashboard" style={{ position: 'relative', width, height: 2 * MARGIN + 2 * ROW + bottom * (CELL + GAP) }}>
      <div style={{ position: 'absolute', left: MARGIN, top: MARGIN, font: '500 22px Inter' }}>{title}</div>
      {panels.map((panel) => <Panel key={panel.id} panel={panel} />)}
    </div>
  </ThemeContext.Provider>
);
